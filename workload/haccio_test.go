package workload

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
)

// recordedCheckpoint is what haccio.jsonl and fio-checkpoint.json were recorded of.
var recordedCheckpoint = []string{"ranks", "2", "particles", "100000", "cache", "dropped", "sync", "fsync"}

func TestHaccioDrive(t *testing.T) {
	w := haccio{}
	tr := &trial{params: resolve(t, w, recordedCheckpoint...), stdout: string(recorded(t, "haccio.jsonl")), exit: Exit{Elapsed: time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	got := tr.records
	if bytes := got["write"][0] * got["write-time"][0]; bytes < 7.6e6-1 || bytes > 7.6e6+1 {
		t.Errorf("a rate over a time of %v bytes, want two ranks of 100,000 particles of 38 bytes", bytes)
	}
	if got["cached"][0] != 0 || got["sync-time"][0] <= 0 || got["sync-time"][0] > got["write-time"][0] {
		t.Errorf("recorded %v", got)
	}
	tr = &trial{params: tr.params, exit: Exit{Code: 1}, stderr: "haccio: the checkpoint takes 7600000 bytes, and /data has 10 free\n"}
	refusedAs[*Ended](t, w.Drive(t.Context(), tr), "10 free")
}

func TestHaccioOutputRefused(t *testing.T) {
	c, err := planOf[checkpoint](resolve(t, haccio{}, recordedCheckpoint...))
	if err != nil {
		t.Fatal(err)
	}
	good := string(recorded(t, "haccio.jsonl"))
	lines := strings.SplitAfter(good, "\n")
	for name, each := range map[string]struct{ output, want string }{
		"nothing":         {"", "0 phases"},
		"no read":         {lines[0], "1 phases"},
		"the wrong order": {lines[1] + lines[0], "2 phases"},
		"two writes":      {lines[0] + lines[0], "2 phases"},
		"not verified":    {strings.Replace(good, `"verified":true`, `"verified":false`, 1), "not compared"},
		"no page counted": {strings.Replace(good, `"cached":`, `"cash":`, 1), "page cache is none"},
		"too many pages":  {strings.Replace(good, `"cached":0.`, `"cached":1.5`, 1), "page cache is none"},
		"a rank less":     {strings.Replace(good, `"ranks":2`, `"ranks":1`, 1), "of 1 ranks"},
		"fewer bytes":     {strings.Replace(good, `"bytes":7600000`, `"bytes":7599999`, 1), "7599999 bytes"},
		"no time":         {strings.Replace(good, `"seconds":`, `"second":`, 1), "a time of 0 s"},
		"a short span":    {strings.Replace(good, `"span_seconds":`, `"span":`, 1), "a span of 0 s"},
		"a step too long": {strings.Replace(good, `"sync_seconds":`, `"sync_seconds":9`, 1), "a step of 9"},
		"cut short":       {good[:len(good)-9], "line 2"},
	} {
		if _, _, err := parseHaccio([]byte(each.output), c); err == nil || !strings.Contains(err.Error(), each.want) {
			t.Errorf("%s: %v, want %q", name, err, each.want)
		}
	}
}

func FuzzParseHaccio(f *testing.F) {
	f.Add(recorded(f, "haccio.jsonl"))
	c := checkpoint{ranks: 2, particles: 100000}
	f.Fuzz(func(t *testing.T, output []byte) {
		write, read, err := parseHaccio(output, c)
		if err == nil && (!(write.Seconds > 0) || !(read.Seconds > 0) || !read.Verified || read.Bytes != c.bytes()) {
			t.Errorf("accepted %+v, %+v", write, read)
		}
	})
}

func TestHaccioProgram(t *testing.T) {
	w := haccio{}
	p, err := w.Program(resolve(t, w, "ranks", "4", "particles", "1000", "api", "mpiio", "layout", "shared", "header", "100"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(p.Args, " ")
	for _, want := range []string{"-n 4 " + image.HaccioProgram, "--particles 1000 ", "--api mpiio ", "--layout shared", "--header 100 ", "--buffer 0 "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	// 38,100 bytes a rank, up to whole pages.
	if p.DiskNeed != 4*40960 || p.MemoryNeed < p.DiskNeed || p.Service {
		t.Errorf("it asks for %d bytes of disk and %d of memory", p.DiskNeed, p.MemoryNeed)
	}
	if !slices.Equal(p.Needs, []string{image.MPIExec, image.HaccioProgram}) || !slices.Equal(p.Data, []string{image.HaccioData}) {
		t.Errorf("needs %q, data %q", p.Needs, p.Data)
	}
	for _, w := range []Workload{haccio{}, fioCheckpoint{}} {
		for name, value := range map[string]string{
			"ranks": "0", "particles": "1000000001", "api": "hdf5", "layout": "striped", "cache": "warm", "sync": "yes",
			"buffer": "5000", "header": "-1", "seed": "0",
		} {
			_, err := Resolve(w, map[string]string{name: value})
			refusedAs[*WrongValue](t, err, name+"="+value)
		}
		_, err := Resolve(w, map[string]string{"api": "mpiio", "cache": "bypassed"})
		refusedAs[*WrongValue](t, err, "cache=bypassed", "api=mpiio")
	}
}

// What fio writes is what haccio writes, but for what its calls of one length leave.
func TestCheckpointBlocks(t *testing.T) {
	for _, particles := range []int64{1, 7, 1000, 99991, 1_000_000, 2_500_000, 10_000_019, 50_000_000, 1_000_000_000} {
		for _, header := range []string{"0", "25165824"} {
			for _, buffer := range []string{"field", "4096", "65536", "4194304", "1073741824"} {
				for _, cache := range []string{"kept", "bypassed"} {
					c, err := planOf[checkpoint](resolve(t, fioCheckpoint{}, "particles", strconv.FormatInt(particles, 10), "header", header, "buffer", buffer, "cache", cache))
					if err != nil {
						t.Fatal(err)
					}
					length, count := c.blocks()
					share, unit, most := c.share(), int64(1), c.buffer
					if cache == "bypassed" {
						share, unit = c.room(), 4096
					}
					if most == 0 {
						most = 1 << 30
					}
					off := max(length*count-share, share-length*count)
					if length <= 0 || length%unit != 0 || length > most || count <= 0 || float64(off) > 0.001*float64(share) {
						t.Errorf("%d particles, header %s, buffer %s, %s: %d calls of %d bytes for %d", particles, header, buffer, cache, count, length, share)
					}
				}
			}
		}
	}
}
