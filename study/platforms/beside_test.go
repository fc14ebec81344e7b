package platforms

import (
	"strings"
	"testing"
)

// A machine's CPUs are where its bare metal's are: off the load's, or it is left out.
func TestMachinesKeepOffTheLoadsCPUs(t *testing.T) {
	on := onPlatforms("docker", "vm:kvm/bare", "vm:kvm/oci:runc")
	d := designed(t, options(on, ofWorkloads("wordpress"), ofSizes(1, 3), withCPUs(4), func(o *Options) { o.Both = true }))
	for id, want := range map[string]string{
		"wordpress 3 CPUs@vm:kvm/bare vanilla":     "cpus=3,cpuset-cpus=1-3",
		"wordpress 3 CPUs@vm:kvm/oci:runc vanilla": "cpus=3,cpuset-cpus=1-3",
		"wordpress 3 CPUs@vm:kvm/oci:runc pinned":  "cpuset-cpus=1-3",
		"wordpress 1 CPU@vm:kvm/bare pinned":       "cpuset-cpus=1",
		"wordpress 1 CPU@docker vanilla":           "cpus=1,cpuset-cpus=1-3",
		"wordpress 1 CPU@vm:kvm/bare vanilla":      "cpus=1,cpuset-cpus=1-3",
		"wordpress 1 CPU@vm:kvm/oci:runc vanilla":  "cpus=1,cpuset-cpus=1-3",
	} {
		if got := condition(t, d, id).Setting.String(); got != want {
			t.Errorf("%s is granted %s, want %s", id, got, want)
		}
	}

	// A size in the path is held nowhere; what computes has no load to keep off.
	sized := options(onPlatforms("docker", "vm:kvm+cpus=4/oci:runc"), ofWorkloads("wordpress", "ffmpeg"), ofSizes(2), withCPUs(4))
	d = designed(t, sized)
	for id, want := range map[string]bool{
		"wordpress 2 CPUs@vm:kvm+cpus=4/oci:runc pinned": false, "wordpress 2 CPUs@vm:kvm+cpus=4/oci:runc vanilla": false,
		"ffmpeg 2 CPUs@vm:kvm+cpus=4/oci:runc pinned": true, "ffmpeg 2 CPUs@vm:kvm+cpus=4/oci:runc vanilla": true,
	} {
		if has(d, id) != want {
			t.Errorf("there is %s: %v", id, !want)
		}
	}
	if notes := strings.Join(d.Plan.Notes, "; "); !strings.Contains(notes, "vm:kvm+cpus=4/oci:runc vanilla is left out of wordpress at 2 CPUs: ") {
		t.Errorf("notes: %s", notes)
	}
}

// Where tare is kept to some of the host's CPUs, the share of the host is of all of them.
func TestANarrowAffinityIsNoSmallerHost(t *testing.T) {
	narrow := func(o *Options) { o.Host.Online = 8 }
	d := designed(t, options(onPlatforms("docker"), ofWorkloads("ffmpeg", "wordpress"), ofSizes(1, 2), withCPUs(2), narrow))
	if c := condition(t, d, "ffmpeg 2 CPUs@docker vanilla"); chr(c.Condition) != 0.25 || same(c.Condition) || !has(d, "ffmpeg 2 CPUs@docker pinned") {
		t.Errorf("two of eight CPUs: CHR %g, pinned is the same %v", chr(c.Condition), same(c.Condition))
	}
	if c := condition(t, d, "ffmpeg 2 CPUs@bare"); c.Platform != Held {
		t.Errorf("bare metal is on %s: an affinity alone keeps it to two of eight CPUs", c.Platform)
	}
	if c := condition(t, d, "wordpress 1 CPU@docker vanilla"); c.Setting.CPUSet != "1" || !same(c.Condition) {
		t.Errorf("a service that the load leaves one CPU is granted %s", c.Setting)
	}
	if notes := strings.Join(d.Plan.Notes, "; "); !strings.Contains(notes, "tare may use CPUs 0-1 alone, of 8") {
		t.Errorf("notes: %s", notes)
	}
	m := designed(t, options(onPlatforms("vm:kvm/oci:runc"), ofSizes(2), withCPUs(2), narrow))
	if c := condition(t, m, "ffmpeg 2 CPUs@vm:kvm/oci:runc vanilla"); !same(c.Condition) || chr(c.Condition) != 0.25 {
		t.Errorf("a machine roams over what tare may use, which is all it is granted: the same %v, CHR %g", same(c.Condition), chr(c.Condition))
	}

	_, err := Design(options(onPlatforms("docker"), ofSizes(1), withCPUs(2), narrow, func(o *Options) { o.Hosts, o.Disruptive = []int{1, 2}, true }))
	if err == nil || !strings.Contains(err.Error(), "tare may use CPUs 0-1 alone, and this host has 8 CPUs") {
		t.Errorf("CPUs off line, where those that tare may not use stay: %v", err)
	}
}

// Each size of host is made sure of, the whole one too: an earlier trial may have left
// less.
func TestEachSizeOfHostIsMadeSureOf(t *testing.T) {
	o := options(onPlatforms("docker"), ofSizes(1), withCPUs(2), func(o *Options) { o.Hosts, o.Disruptive = []int{1, 2}, true })
	kept := map[int]int{}
	o.Host.Keep = func(n int) (func() error, error) {
		kept[n]++
		return func() error { return nil }, nil
	}
	for _, g := range designed(t, o).Groups {
		for _, c := range g.Conditions {
			restore, err := c.Around(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := restore(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept[1] < 2 || kept[2] < 2 {
		t.Errorf("kept on line %v times", kept)
	}
}
