package faults_test

import (
	"fmt"
	"time"

	"tare/probe/faults"
)

// Which faults two containers took in ten seconds, and how many of them twice.
func ExampleStart() {
	recorder, err := faults.Start([]faults.Target{
		{Name: "web-1", Cgroup: "/sys/fs/cgroup/memory/docker/3f0c"},
		{Name: "web-2", Cgroup: "/sys/fs/cgroup/memory/docker/9ab1"},
	}, faults.Options{})
	if err != nil {
		fmt.Println(err) // says what this host lacks
		return
	}
	time.Sleep(10 * time.Second)
	recording, err := recorder.Stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, target := range recording.Targets {
		n := recording.Counts[i]
		fmt.Println(target.Name, n.Of(faults.Read), "read,", n.Of(faults.CopyOnWrite), "copy-on-write")
	}
	duplicates := recording.Duplicates(nil)
	names, err := recording.Names()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, site := range faults.Most(duplicates.BySite, 10, faults.Site.Compare) {
		function, _ := names.Function(site)
		share := duplicates.BySite[site]
		fmt.Println(recording.Path(site.File), function, share.Faults, share.Same)
	}
}
