package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/image"
)

// fiveParts is what together printed of the parts of five seconds.
func fiveParts(t testing.TB) string { return string(recorded(t, "ffmpeg-parts.jsonl")) }

// cutTrial is a trial of these parts.
func cutTrial(t *testing.T, stdout, frames string) *trial {
	t.Helper()
	return &trial{
		params: resolve(t, ffmpeg{}, "clip", "/clips/zoom-5s.mp4", "parts", "5"), stdout: stdout, exit: Exit{Elapsed: 3 * time.Second},
		generate: func(_ context.Context, args []string) ([]byte, error) {
			if args[len(args)-1] != "/clips/zoom-5s.mp4" {
				return nil, fmt.Errorf("%s is not the clip", args[len(args)-1])
			}
			return []byte(frames), nil
		},
	}
}

func TestFFmpegPartsDrive(t *testing.T) {
	tr := cutTrial(t, fiveParts(t), "125\n")
	if err := (ffmpeg{}).Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, ffmpeg{}, tr)
	if tr.records["parts"][0] != 5 || len(tr.records["part"]) != 5 || tr.records["wall"][0] != 3 {
		t.Errorf("recorded %v", tr.records)
	}
	// All at once: the whole takes as long as the longest, and a little.
	if longest := slices.Max(tr.records["part"]); tr.records["elapsed"][0] < longest || tr.records["elapsed"][0] > 1.1*longest {
		t.Errorf("%v in all, the longest %v", tr.records["elapsed"], longest)
	}
	tr = cutTrial(t, fiveParts(t), "126\n")
	if err := (ffmpeg{}).Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "125 frames of the clip's 126") || len(tr.records) != 0 {
		t.Errorf("a frame was lost: error %v, recorded %v", err, tr.records)
	}
}

func TestFFmpegPartsThatFail(t *testing.T) {
	good := fiveParts(t)
	failed := strings.Replace(good, `"job":"03","status":0`, `"job":"03","status":137`, 1)
	failed = strings.Replace(failed, `"failed":0`, `"failed":1`, 1)
	tr := cutTrial(t, failed, "125\n")
	tr.exit.Code = 1
	refusedAs[*Ended](t, (ffmpeg{}).Drive(t.Context(), tr), "part 03 ended with status 137")
	tr = cutTrial(t, "", "125\n")
	tr.exit.Code, tr.stderr = 1, "together: start 03: no more processes"
	refusedAs[*Ended](t, (ffmpeg{}).Drive(t.Context(), tr), "no more processes")
	for name, c := range map[string]struct{ output, want string }{
		"nothing":       {"", "ends before job 00"},
		"a part less":   {good[strings.Index(good, "\n")+1:], `job "01", want 00`},
		"cut short":     {good[:strings.LastIndex(good, `{"jobs"`)], "no last line"},
		"hidden":        {strings.Replace(good, `"job":"03","status":0`, `"job":"03","status":137`, 1), "1 failed"},
		"another time":  {strings.Replace(good, `"elapsed_seconds":`, `"elapsed_seconds":1`, 1), "last line"},
		"no time":       {strings.Replace(good, `"end_seconds":`, `"e":`, 1), "began at"},
		"no figures":    {strings.Replace(good, "bench: utime", "bunch: utime", 1), "part 00: ffmpeg printed no figures"},
		"a wrong begin": {strings.Replace(good, `"start_seconds":`, `"start_seconds":-`, 2), "cannot be"},
	} {
		tr := cutTrial(t, c.output, "125\n")
		if err := (ffmpeg{}).Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
}

func FuzzParseTogether(f *testing.F) {
	names := []string{"00", "01", "02", "03", "04"}
	f.Add([]byte(fiveParts(f)))
	f.Fuzz(func(t *testing.T, output []byte) {
		jobs, elapsed, err := parseTogether(output, names)
		if err != nil {
			return
		}
		if len(jobs) != len(names) {
			t.Fatalf("%d jobs", len(jobs))
		}
		for i, j := range jobs {
			if j.Job != names[i] || j.End > elapsed || !(j.End > j.Start) || j.User < 0 || j.System < 0 {
				t.Errorf("accepted %+v within %v s", j, elapsed)
			}
		}
	})
}

func TestFFmpegPartsProgram(t *testing.T) {
	program, err := ffmpeg{}.Program(resolve(t, ffmpeg{}, "clip", "/clips/zoom-30s.mp4", "parts", "30", "threads", "3"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(program.Args, " ")
	for _, want := range []string{image.TogetherProgram + " 00 01 ", " 28 29 -- /usr/bin/ffmpeg ", " -i /clips/zoom/{}.mp4 ", " /data/out-{}.mp4", " pools=3"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	if program.MemoryNeed < 30*59<<20 {
		t.Errorf("thirty processes are said to need %d bytes", program.MemoryNeed)
	}
	for _, wrong := range [][2]string{{"/clips/zoom-30s.mp4", "5"}, {"/clips/zoom-30s.mp4", "0"}, {"/clips/zoom-5s.mp4", "x"}, {"/clips/720p-5s.mp4", "5"}, {"/own.mp4", "2"}} {
		_, err := Resolve(ffmpeg{}, map[string]string{"clip": wrong[0], "parts": wrong[1]})
		refusedAs[*WrongValue](t, err, "parts="+wrong[1])
	}
}

// The parts hold the clip's frames, no fewer and no more: both by the clips themselves
// and by what ffmpeg makes of them.
func TestRealFFmpegParts(t *testing.T) {
	t.Parallel()
	img := realImage(t, "ffmpeg")
	count := func(tr *realTrial, clip string) string {
		out, err := tr.generate(t.Context(), []string{"/usr/bin/ffprobe", "-v", "error", "-select_streams", "v:0",
			"-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", clip})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	var cpu []float64 // seconds
	for _, parts := range []string{"1", "5"} {
		p := resolve(t, ffmpeg{}, "clip", "/clips/zoom-5s.mp4", "parts", parts)
		tr := launch(t, ffmpeg{}, p, img, func([]string) {}, 0)
		if err := (ffmpeg{}).Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, ffmpeg{}, &tr.trial)
		cpu = append(cpu, tr.records["cpu"]...)
		if parts == "1" {
			continue
		}
		for _, c := range image.CutClips() {
			if got := count(tr, c.Path); got != fmt.Sprint(25*c.Seconds) {
				t.Errorf("%s has %s frames, want 25 a second", c.Path, got)
			}
			for n := range c.Seconds {
				// Decoded, and not only counted: a part that looks back to the one before has fewer.
				if got := count(tr, image.PartOf(image.PartName(n))); got != "25" {
					t.Errorf("part %d has %s frames, want 25", n, got)
				}
			}
		}
	}
	if cpu[1] < cpu[0]/2 {
		t.Errorf("the parts took %v s of CPU time and the whole %v: not the same work", cpu[1], cpu[0])
	}
}
