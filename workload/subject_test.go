package workload

import (
	"slices"
	"strings"
	"testing"
)

// Data of S1's size are in an image of their own, so that copies share them; other sizes
// that an image does not hold are made by each copy.
func TestLargeDataAreInTheImage(t *testing.T) {
	for _, name := range []string{"httpd", "mapstore", "uri-parser", "hashing", "pagerank", "fio"} {
		w, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for data, want := range map[string]string{"": name, "16": name, "500": name + "-500"} {
			set := map[string]string{}
			if data != "" {
				set["data"] = data
			}
			s := Subject{Workload: w, Params: set}
			if got := s.Image().Recipe; got != want {
				t.Errorf("%s with data=%s is of image %s, want %s", name, data, got, want)
			}
			p, err := Resolve(w, set)
			if err != nil {
				t.Fatalf("%s with data=%s: %v", name, data, err)
			}
			makes := slices.ContainsFunc(w.Metrics(p), func(m Metric) bool { return m.Name == "making" || m.Name == "loading" })
			if makes && (name != "pagerank" || data != "16") { // of a smaller graph than the image's there is no part
				t.Errorf("%s with data=%s makes data of its own", name, data)
			}
		}
	}
	for name, file := range map[string]string{"500": "/file", "501": "/data/file"} {
		p, err := Resolve(fio{}, map[string]string{"data": name})
		if err != nil {
			t.Fatal(err)
		}
		program, err := fio{}.Program(p)
		if err != nil || !slices.Contains(program.Args, "--filename="+file) {
			t.Errorf("fio with data=%s: %s, %v, want it to read %s", name, strings.Join(program.Args, " "), err, file)
		}
	}
	if got := SourceOf(docstore{}, Params{"data": "500"}).Recipe; got != "docstore" {
		t.Errorf("docstore, which fills itself, is of image %s", got)
	}
	if own := (Source{Image: "redis:7"}); (Subject{Workload: fio{}, Source: own, Params: map[string]string{"data": "500"}}).Image() != own {
		t.Error("the user's own image was replaced")
	}
}
