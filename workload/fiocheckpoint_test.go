package workload

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFioCheckpointDrive(t *testing.T) {
	w := fioCheckpoint{}
	tr := &trial{params: resolve(t, w, recordedCheckpoint...), stdout: string(recorded(t, "fio-checkpoint.json")), exit: Exit{Elapsed: time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	got := tr.records
	if bytes := got["write"][0] * got["write-time"][0]; bytes < 7.6e6-1 || bytes > 7.6e6+1 {
		t.Errorf("a rate over a time of %v bytes, want what haccio writes", bytes)
	}
	// Its sync is in fio's run time alone, which is longer than its calls.
	if read := got["read-time"][0]; !(read > 0 && got["write-time"][0] > 0.001) {
		t.Errorf("recorded %v", got)
	}
}

func TestFioCheckpointRefused(t *testing.T) {
	c, err := planOf[checkpoint](resolve(t, fioCheckpoint{}, recordedCheckpoint...))
	if err != nil {
		t.Fatal(err)
	}
	good := string(recorded(t, "fio-checkpoint.json"))
	for name, each := range map[string]struct{ output, want string }{
		"nothing":         {"", "end of JSON"},
		"no job":          {`{"jobs":[]}`, "0 writing and 0 reading"},
		"a failed job":    {strings.Replace(good, `"error" : 0`, `"error" : 28`, 1), "error 28"},
		"a job more":      {strings.Replace(good, `"jobname" : "write"`, `"jobname" : "verify"`, 1), "nobody asked"},
		"a job twice":     {strings.Replace(good, `"jobname" : "settle"`, `"jobname" : "write"`, 1), "bytes by"},
		"a reader less":   {strings.Replace(good, `"jobname" : "read"`, `"jobname" : "settle"`, 1), "1 reading"},
		"fewer bytes":     {strings.ReplaceAll(good, `"io_bytes" : 3800000`, `"io_bytes" : 3799999`), "3799999 bytes"},
		"calls not timed": {strings.ReplaceAll(good, `"N" : 1`, `"N" : 2`), "were timed"},
		"short calls":     {strings.ReplaceAll(good, `"short_ios" : 0`, `"short_ios" : 1`), "were short"},
		"cut short":       {good[:len(good)/2], "unexpected end"},
	} {
		if _, err := parseFioCheckpoint([]byte(each.output), c); err == nil || !strings.Contains(err.Error(), each.want) {
			t.Errorf("%s: %v, want %q", name, err, each.want)
		}
	}
}

func FuzzParseFioCheckpoint(f *testing.F) {
	// What is looked at of a recording, which is too long to be varied.
	job := func(name, direction string) string {
		return `{"jobname":"` + name + `","error":0,"` + direction + `":{"io_bytes":3800000,"total_ios":1,"runtime":4,"lat_ns":{"mean":756850.5,"N":1}}}`
	}
	write, read := job("write", "write"), job("read", "read")
	f.Add([]byte("note\n{\n\"jobs\":["+strings.Join([]string{write, write, read, read}, ",")+"]}"), true)
	f.Add([]byte(`{"jobs":[{"jobname":"write","write":{"io_bytes":38,"total_ios":1,"runtime":-1,"lat_ns":{"mean":1e300,"N":1}}}]}`), false)
	f.Fuzz(func(t *testing.T, output []byte, synced bool) {
		c := checkpoint{ranks: 2, particles: 100000, sync: syncNone}
		if synced {
			c.sync = syncFsync
		}
		if o, err := parseFioCheckpoint(output, c); err == nil && (o.bytes != c.bytes() || o.write <= 0 || o.read <= 0) {
			t.Errorf("accepted %+v", o)
		}
	})
}

func TestFioCheckpointTimes(t *testing.T) {
	f := fioTransfers{Bytes: 200, Count: 2, Runtime: 9}
	f.Latency.Mean, f.Latency.N = 2e6, 2
	for synced, want := range map[bool]time.Duration{false: 4 * time.Millisecond, true: 8500 * time.Microsecond} {
		if got, err := f.took(100, 2, synced); err != nil || got != want {
			t.Errorf("synced %v: %v, %v, want %v", synced, got, err, want)
		}
	}
}

func TestFioCheckpointArguments(t *testing.T) {
	_, err := Resolve(fioCheckpoint{}, map[string]string{"ranks": "61"})
	refusedAs[*WrongValue](t, err, "ranks=61", "at most 60")
	for _, c := range []struct {
		params  []string
		has     []string
		lacking string
	}{
		{nil, []string{"--bs=38000000", "--size=38000000", "--numjobs=1", "--filename_format=checkpoint.$jobnum", "--end_fsync=0"}, "--direct="},
		{[]string{"cache", "bypassed", "sync", "fsync"}, []string{"--bs=38002688", "--direct=1", "--end_fsync=1"}, "settle"},
		{[]string{"cache", "dropped"}, []string{"--name=settle", "--invalidate=1"}, "--direct="},
		{[]string{"layout", "shared", "ranks", "3", "buffer", "4194304"}, []string{"--filename=checkpoint", "--bs=3800000", "--offset_increment=38000000", "--numjobs=3"}, "jobnum"},
	} {
		program, err := fioCheckpoint{}.Program(resolve(t, fioCheckpoint{}, c.params...))
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
}
