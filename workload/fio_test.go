package workload

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestFioDrive(t *testing.T) {
	w := fio{}
	good := string(recorded(t, "fio.json"))
	tr := &trial{params: resolve(t, w, "reads", "1000"), stdout: good, exit: Exit{Elapsed: time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if tr.records["bandwidth"][0] < 4096*1000 || tr.records["latency"][0] > 1 {
		t.Errorf("recorded %v", tr.records)
	}
	for name, c := range map[string]struct{ output, want string }{
		"fewer reads":   {strings.ReplaceAll(good, " : 1000,", " : 999,"), "999 times of 1000"},
		"a failed job":  {strings.Replace(good, `"error" : 0`, `"error" : 5`, 1), "error 5"},
		"short reads":   {strings.Replace(good, `"short_ios" : 0`, `"short_ios" : 2`, 1), "2 reads were short"},
		"cut short":     {good[:len(good)/2], "unexpected end"},
		"nothing":       {"", "(empty)"},
		"no job at all": {`{"jobs":[]}`, "0 jobs"},
	} {
		tr := &trial{params: tr.params, stdout: c.output}
		if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), c.want) || len(tr.records) > 0 {
			t.Errorf("%s: %v, want one about %q", name, err, c.want)
		}
	}
}

func TestFioReadiness(t *testing.T) {
	for output, want := range map[string]bool{
		"Starting 1 process\n":                                                false,
		"Starting 1 process\nJobs: 1 (f=0)\r":                                 false,
		"Starting 1 process\nread: Laying out IO file":                        false,
		"Starting 1 process\nJobs: 1 (f=0)\rJobs: 1 (f=1)\r":                  true,
		"Jobs: 1 (f=1): [r(1)][0.0%][r=7502MiB/s][r=1921k IOPS][eta 06d:23h]": true,
	} {
		if got := fioRuns([]byte(output)); got != want {
			t.Errorf("%q: runs is %v", output, got)
		}
	}
}

func FuzzParseFio(f *testing.F) {
	f.Add(recorded(f, "fio.json"))
	f.Add([]byte("read: Laying out IO file\n{\n\"jobs\":[{}]}"))
	f.Fuzz(func(t *testing.T, output []byte) {
		if job, err := parseFio(output); err == nil && (job.Read.Count <= 0 || !(job.Read.IOPS > 0) || !(job.Read.Latency.Mean > 0)) {
			t.Errorf("accepted %+v", job)
		}
	})
}

func TestRealFio(t *testing.T) {
	img := realImage(t, "fio")
	w := fio{}
	made := filepath.Join(img.Root, "data/file")
	t.Cleanup(func() { _ = os.Remove(made) })
	for _, params := range [][]string{{"reads", "20000"}, {"reads", "100", "data", "65", "seed", "random"}} {
		tr := launch(t, w, resolve(t, w, params...), img, func([]string) {}, syscall.CLONE_NEWPID)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, w, &tr.trial)
	}

	tr := watch(t, w, resolve(t, w, "until", "signal", "seed", "random"), img)
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	// Its job, a child, has the file mapped as a whole.
	children, err := os.ReadFile(filepath.Join("/proc", itoa(tr.pid), "task", itoa(tr.pid), "children"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, child := range strings.Fields(string(children)) {
		found += len(mappings(t, child, "/file"))
	}
	if found != 1 {
		t.Errorf("the file is mapped %d times by the children %q", found, children)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Sustain(ctx, tr, 1); err != nil {
		t.Error(err)
	}
}

func TestFioArguments(t *testing.T) {
	for _, c := range []struct {
		params  []string
		has     []string
		lacking string
	}{
		{nil, []string{"--randseed=1", "--filename=/file", "--readonly", "--number_ios=1000000", "--output-format=json"}, "--rate_iops"},
		{[]string{"rate", "200"}, []string{"--rate_iops=200"}, "--time_based"},
		{[]string{"data", "400"}, []string{"--size=400m", "--filename=/data/file"}, "--readonly"},
		{[]string{"data", "500"}, []string{"--size=500m", "--filename=/file", "--readonly"}, "/data/file"},
		{[]string{"until", "signal", "seed", "random"}, []string{"--time_based", "--randrepeat=0", "--eta=always"}, "--number_ios"},
	} {
		program, err := fio{}.Program(resolve(t, fio{}, c.params...))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !slices.Contains(program.Args, want) {
				t.Errorf("%q: %q lacks %s", c.params, program.Args, want)
			}
		}
		if strings.Contains(strings.Join(program.Args, " "), c.lacking) {
			t.Errorf("%q: %q has %s", c.params, program.Args, c.lacking)
		}
	}
	for name, value := range map[string]string{"data": "1025", "reads": "0", "rate": "0", "seed": "x", "until": "never"} {
		_, err := Resolve(fio{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
	for name, value := range map[string]string{"data": "2049", "degree": "0", "iterations": "1001", "until": "never"} {
		_, err := Resolve(pagerank{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
}
