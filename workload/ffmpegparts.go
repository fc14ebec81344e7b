package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/image"
)

// S2's multitasking: a clip cut at its key frames, without encoding anything again, into
// parts that as many processes transcode at once (programs/together). It is the same
// work but for what each process takes to start, which is of the matter.

// whole is the value of parts for a clip that is not cut.
const whole = "1"

// parts reads into which parts a clip is cut, and names them; none where it is left whole.
func (from *parameters) parts(clip string) []string {
	text := from.text("parts", whole, "1: the clip as it is; "+cutParts()+
		": as many clips of a second that it is cut into, each by a process of its own, all at once")
	if text == whole {
		return nil
	}
	for _, c := range image.CutClips() {
		if clip != c.Path {
			continue
		}
		if text != strconv.Itoa(c.Seconds) {
			from.refuse("parts", fmt.Sprintf("%s, or %d with %s", whole, c.Seconds, c.Path))
		}
		var names []string
		for n := range c.Seconds {
			names = append(names, image.PartName(n))
		}
		return names
	}
	from.refuse("parts", fmt.Sprintf("%s with %s; cut are %s", whole, clip, cutClips()))
	return nil
}

// cutClips and cutParts list the clips that are cut, and into how many parts.
func cutClips() string {
	return listed(func(c image.CutClip) string { return c.Path })
}

func cutParts() string {
	return listed(func(c image.CutClip) string { return fmt.Sprintf("%d (with %s)", c.Seconds, c.Path) })
}

func listed(of func(image.CutClip) string) string {
	var texts []string
	for _, c := range image.CutClips() {
		texts = append(texts, of(c))
	}
	return strings.Join(texts, ", ")
}

// partMemory is what a process took at 640x360 with the fastest preset, 59 MiB by thirty
// on two CPUs, and some.
const partMemory = 64 << 20

// sideBySide transcodes all parts at once.
func sideBySide(parts []string, transcode func(from, to string) []string) Program {
	const part = "{}" // which together puts the names for
	return Program{
		Args: slices.Concat(
			[]string{image.TogetherProgram},
			parts,
			[]string{"--"},
			transcode(image.PartOf(part), "/data/out-"+part+".mp4"),
		),
		Data:       []string{"/data"},
		MemoryNeed: int64(len(parts)) * partMemory,
		Needs:      []string{image.TogetherProgram, ffmpegProgram},
	}
}

func (plan ffmpegPlan) driveParts(ctx context.Context, t Trial) error {
	exit, err := t.Wait(ctx)
	if err != nil {
		return fmt.Errorf("wait for the program: %w", err)
	}
	stdout, _ := t.Output()
	jobs, elapsed, err := parseTogether(stdout, plan.parts)
	if err != nil {
		if exit.Code != 0 || exit.OOMKilled {
			return &Ended{Exit: exit, LastWords: lastWords(t)}
		}
		return fmt.Errorf("output of together: %w; its end: %s", err, ending(stdout))
	}
	var frames int64
	var cpu, poolThreads float64
	for _, j := range jobs {
		if j.Status != 0 {
			return &Ended{Exit: exit, LastWords: fmt.Sprintf("part %s ended with status %d; it printed: %s", j.Job, j.Status, tail([]byte(j.Stderr)))}
		}
		outcome, err := parseFFmpeg([]byte(j.Stderr))
		if err != nil {
			return fmt.Errorf("part %s: %w", j.Job, err)
		}
		frames += outcome.frames
		poolThreads += outcome.poolThreads
		cpu += j.User + j.System
	}
	if exit.Code != 0 || exit.OOMKilled {
		return &Ended{Exit: exit, LastWords: lastWords(t)}
	}
	if err := plan.allFrames(ctx, t, frames); err != nil {
		return err
	}
	t.Record("elapsed", elapsed)
	t.Record("cpu", cpu)
	t.Record("wall", exit.Elapsed.Seconds())
	t.Record("parts", float64(len(jobs)))
	for _, j := range jobs {
		t.Record("part", j.End-j.Start)
	}
	if plan.codec == x265 {
		t.Record("pool-threads", poolThreads)
	}
	return nil
}

// togetherJob is what together prints of one of its jobs. Times are seconds, from the
// beginning of the first one on.
type togetherJob struct {
	Job    string
	Status int
	Start  float64 `json:"start_seconds"`
	End    float64 `json:"end_seconds"`
	User   float64 `json:"user_seconds"`
	System float64 `json:"system_seconds"`
	Stderr string  // its end
}

// fault says what cannot be of a job; empty where nothing is wrong.
func (j togetherJob) fault() string {
	for _, v := range []float64{j.Start, j.End, j.User, j.System} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Sprintf("a time of %v s cannot be", v)
		}
	}
	if j.End <= j.Start {
		return fmt.Sprintf("it ended at %v s and began at %v", j.End, j.Start)
	}
	return ""
}

// parseTogether reads what together prints: a line for each of the jobs, in order, and
// one for all, whose time is from the first one's beginning to the last one's end.
func parseTogether(output []byte, names []string) (jobs []togetherJob, elapsed float64, err error) {
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for _, name := range names {
		if !lines.Scan() {
			return nil, 0, errors.Join(fmt.Errorf("it ends before job %s", name), lines.Err())
		}
		var j togetherJob
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return nil, 0, fmt.Errorf("job %s: %w", name, err)
		}
		if j.Job != name {
			return nil, 0, fmt.Errorf("job %q, want %s", j.Job, name)
		}
		if why := j.fault(); why != "" {
			return nil, 0, fmt.Errorf("job %s: %s", name, why)
		}
		jobs = append(jobs, j)
		elapsed = max(elapsed, j.End)
	}
	var all struct {
		Jobs    int
		Failed  *int
		Elapsed float64 `json:"elapsed_seconds"`
	}
	if !lines.Scan() {
		return nil, 0, errors.Join(errors.New("it has no last line"), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &all); err != nil {
		return nil, 0, fmt.Errorf("last line: %w", err)
	}
	failed := 0
	for _, j := range jobs {
		if j.Status != 0 {
			failed++
		}
	}
	// The last digits are rounded.
	if all.Jobs != len(jobs) || all.Failed == nil || *all.Failed != failed || math.Abs(all.Elapsed-elapsed) > 1e-6 {
		return nil, 0, fmt.Errorf("last line: %s, where %d jobs took %v s and %d failed", lines.Bytes(), len(jobs), elapsed, failed)
	}
	return jobs, elapsed, nil
}
