package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStreamDrive(t *testing.T) {
	w := stream{}
	tr := &trial{params: resolve(t, w), stdout: string(recorded(t, "stream.jsonl"))}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	// A million elements of 8 bytes fit in the cache of the machine that it ran on.
	if tr.records["cache-resident"][0] != 1 {
		t.Error("cache residency not noted")
	}
	for _, kernel := range []string{"copy", "scale", "add", "triad"} {
		if rate := tr.records[kernel][0]; rate < 1e9 || rate > 1e12 {
			t.Errorf("%s: %v B/s", kernel, rate)
		}
	}
}

func TestStreamOutputRefused(t *testing.T) {
	good := string(recorded(t, "stream.jsonl"))
	lines := strings.SplitAfter(good, "\n")
	for name, c := range map[string]struct{ output, want string }{
		"wrong results": {strings.Replace(good, `"valid":true`, `"valid":false`, 1), "wrong results"},
		"not validated": {strings.Replace(good, `"valid":true`, `"v":true`, 1), "not valid"},
		"no triad":      {strings.Join(lines[:3], ""), "lacks kernel triad"},
		"copy twice":    {lines[0] + good, "second time"},
		"cut short":     {good[:len(good)-40], "line 4"},
		"nothing":       {"", "lacks kernel copy"},
		"no best rate":  {strings.Replace(good, "best_bytes_per_second", "best", 1), "best rate 0"},
		"no iterations": {strings.Replace(good, `"bytes_per_second"`, `"rates"`, 1), "0 iterations"},
		"no time":       {strings.Replace(good, `"bytes_per_second":[`, `"bytes_per_second":[-1,`, 1), "above 0"},
	} {
		if _, err := parseStream([]byte(c.output)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
}

func FuzzParseStream(f *testing.F) {
	f.Add(recorded(f, "stream.jsonl"))
	f.Fuzz(func(t *testing.T, output []byte) {
		kernels, err := parseStream(output)
		if err == nil && len(kernels) != 4 {
			t.Errorf("%d kernels without an error", len(kernels))
		}
		for _, k := range kernels {
			if average := k.average(); !(k.Best > 0) || !(average > 0) || average > k.Best*(1+1e-5) {
				t.Errorf("accepted %+v, on average %g", k, average)
			}
		}
	})
}

func TestFFmpegDrive(t *testing.T) {
	w := ffmpeg{}
	frames := "25\n"
	tr := &trial{
		params: resolve(t, w), stderr: string(recorded(t, "ffmpeg.stderr")), exit: Exit{Elapsed: 600 * time.Millisecond},
		generate: func(_ context.Context, args []string) ([]byte, error) {
			if args[len(args)-1] != "/clips/720p-1s.mp4" {
				return nil, errors.New("not the clip")
			}
			return []byte(frames), nil
		},
	}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if tr.records["wall"][0] != 0.6 || tr.records["pool-threads"][0] != 2 || tr.records["elapsed"][0] <= 0 {
		t.Errorf("recorded %v", tr.records)
	}

	frames = "26\n"
	if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "25 frames of the clip's 26") {
		t.Errorf("a frame was lost: error %v", err)
	}
	frames = "N/A\n"
	if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "ffprobe") {
		t.Errorf("frames not counted: error %v", err)
	}
}

func TestFFmpegThreadsReachTheEncoder(t *testing.T) {
	program, err := ffmpeg{}.Program(resolve(t, ffmpeg{}, "threads", "3"))
	if err != nil {
		t.Fatal(err)
	}
	if got := argument(program.Args, "-x265-params"); got != "pools=3" {
		t.Errorf("x265 is given %q: it heeds no -threads", got)
	}
}

func FuzzParseFFmpeg(f *testing.F) {
	f.Add(recorded(f, "ffmpeg.stderr"))
	f.Add([]byte("frame=  1 fps\rframe= 25 fps\nbench: utime=0.1s stime=0.1s rtime=0.2s\n"))
	f.Fuzz(func(t *testing.T, stderr []byte) {
		if o, err := parseFFmpeg(stderr); err == nil && (o.elapsed <= 0 || o.cpu < 0 || o.frames < 0) {
			t.Errorf("accepted %+v", o)
		}
	})
}

func TestCommand(t *testing.T) {
	w := FromCommand(Program{Args: []string{"/usr/bin/Sort_it", "-n"}}, Source{Rootfs: "/srv/root"})
	if w.Name() != "sort_it" || w.Source().Rootfs != "/srv/root" {
		t.Errorf("name %q, source %+v", w.Name(), w.Source())
	}
	tr := &trial{params: resolve(t, w), exit: Exit{Elapsed: 2 * time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if tr.records["wall"][0] != 2 || tr.records["cpu"][0] != 1 {
		t.Errorf("recorded %v", tr.records)
	}
	for source, want := range map[Source]string{
		{Image: "docker.io/library/Postgres:16"}: "postgres",
		{Archive: "/tmp/a b.tar"}:                "a-b.tar",
		{Rootfs: "/"}:                            "command",
	} {
		if got := FromCommand(Program{}, source).Name(); got != want {
			t.Errorf("%+v is named %q, want %q", source, got, want)
		}
	}
}

func TestBatchThatFails(t *testing.T) {
	w := FromCommand(Program{Command: []string{"sort"}}, Source{})
	for _, c := range []struct {
		trial trial
		want  string
	}{
		{trial{exit: Exit{Code: 3}, stderr: "reading\r\n\nsort: no such file\n"}, "status 3; its last words: reading | sort: no such file"},
		{trial{exit: Exit{Code: 1}, stdout: "only here\n"}, "only here"},
		{trial{exit: Exit{Code: 2}}, "printed nothing"},
		{trial{exit: Exit{Code: 137, OOMKilled: true}}, "memory limit"},
	} {
		err := w.Drive(t.Context(), &c.trial)
		refusedAs[*Ended](t, err, c.want)
		if len(c.trial.records) != 0 {
			t.Errorf("recorded %v of a program that failed", c.trial.records)
		}
	}
}
