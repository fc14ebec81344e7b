package workload

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ffmpeg is S2's CPU-bound program: a clip in H.264 made into H.265, by one process or
// cut in parts by one for each (ffmpegparts.go). The figures of one are those that
// ffmpeg's own -benchmark prints; the frames of all output are counted against those of
// the clip.
type ffmpeg struct{ workloadOf[ffmpegPlan] }

func (ffmpeg) Name() string    { return "ffmpeg" }
func (ffmpeg) Summary() string { return "video transcoding, CPU-bound: H.264 to H.265" }
func (ffmpeg) Source() Source  { return Source{Recipe: "ffmpeg"} }

// ffmpegPlan is what ffmpeg is to transcode, and how.
type ffmpegPlan struct {
	clip          string
	parts         []string // names of the clip's; none where it is left whole
	preset, codec string
	threads       int64
}

func (plan ffmpegPlan) parse(from *parameters) ffmpegPlan {
	plan.clip = from.text("clip", "/clips/720p-1s.mp4", "path inside the image: /clips/720p-1s.mp4, /clips/720p-5s.mp4 "+
		"(test patterns), "+cutClips()+" (moving pictures), or one of your own")
	if !strings.HasPrefix(plan.clip, "/") {
		from.refuse("clip", "an absolute path inside the image, such as /clips/720p-5s.mp4")
	}
	plan.parts = from.parts(plan.clip)
	plan.preset = from.word("preset", "ultrafast", "of the encoder: "+strings.Join(presets, ", "), presets...)
	plan.threads = from.whole("threads", 0, 0, 64,
		"of each process' decoder and encoder each, 1 to 64; 0: as many as they see CPUs")
	plan.codec = from.word("codec", x265, x265+" or "+x264, x265, x264)
	return plan
}

// The codecs.
const (
	x265 = "libx265"
	x264 = "libx264"
)

var presets = []string{"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"}

func (plan ffmpegPlan) program() Program {
	if len(plan.parts) > 0 {
		return sideBySide(plan.parts, plan.transcode)
	}
	// At 720p the fastest preset took 190 MiB, nearly all of it frames.
	return Program{Args: plan.transcode(plan.clip, "/data/out.mp4"), Data: []string{"/data"}, MemoryNeed: 224 << 20}
}

// transcode is the command that does.
func (plan ffmpegPlan) transcode(from, to string) []string {
	n := strconv.FormatInt(plan.threads, 10)
	args := []string{ffmpegProgram, "-hide_banner", "-nostdin", "-nostats", "-benchmark", "-y",
		"-threads", n, "-i", from, "-an", "-c:v", plan.codec, "-preset", plan.preset, "-threads", n}
	if plan.codec == x265 && plan.threads > 0 {
		// x265 makes its own pool, whatever -threads says.
		args = append(args, "-x265-params", "pools="+n)
	}
	return append(args, "-f", "mp4", to)
}

const ffmpegProgram = "/usr/bin/ffmpeg"

func (plan ffmpegPlan) metrics() []Metric {
	elapsed, cpu, of := "transcoding, by ffmpeg's own clock", "user and system time of ffmpeg", ""
	cut := len(plan.parts) > 0
	if cut {
		elapsed, cpu, of = "from the start of the first process to the end of the last, by the clock of what started them", "user and system time of all processes", ", of all processes"
	}
	metrics := []Metric{
		{Name: "elapsed", Unit: "s", Better: Lower, Primary: true, Doc: elapsed},
		{Name: "cpu", Unit: "s", Better: Lower, Doc: cpu},
		{Name: "wall", Unit: "s", Better: Lower, Doc: "from the request to launch to the end, what the platform took included"},
	}
	if cut {
		metrics = append(metrics, Metric{Name: "part", Unit: "s", Better: Lower, Doc: "from the start of a process to its end; every part"},
			Metric{Name: "parts", Unit: "processes", Better: Higher, Count: true, Doc: "that ran side by side"})
	}
	if plan.codec == x265 {
		metrics = append(metrics, Metric{Name: "pool-threads", Unit: "threads", Better: Higher, Count: true,
			Doc: "that x265 made for itself from the CPUs it saw" + of + "; 0 where it saw none"})
	}
	return metrics
}

func (plan ffmpegPlan) drive(ctx context.Context, t Trial) error {
	if len(plan.parts) > 0 {
		return plan.driveParts(ctx, t)
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	_, stderr := t.Output()
	outcome, err := parseFFmpeg(stderr)
	if err != nil {
		return err
	}
	if err := plan.allFrames(ctx, t, outcome.frames); err != nil {
		return err
	}
	t.Record("elapsed", outcome.elapsed)
	t.Record("cpu", outcome.cpu)
	t.Record("wall", exit.Elapsed.Seconds())
	if plan.codec == x265 {
		t.Record("pool-threads", outcome.poolThreads)
	}
	return nil
}

// allFrames holds the frames that were written to those of the clip.
func (plan ffmpegPlan) allFrames(ctx context.Context, t Trial, written int64) error {
	// Counted after the program's end, so that nothing disturbs it.
	counted, err := t.Generate(ctx, []string{"/usr/bin/ffprobe", "-v", "error", "-select_streams", "v:0",
		"-count_packets", "-show_entries", "stream=nb_read_packets", "-of", "csv=p=0", plan.clip})
	if err != nil {
		return fmt.Errorf("count the frames of %s: %w", plan.clip, err)
	}
	want, err := strconv.ParseInt(strings.TrimSpace(string(counted)), 10, 64)
	if err != nil || want <= 0 {
		return fmt.Errorf("count the frames of %s: ffprobe printed %q, want a number", plan.clip, counted)
	}
	if written != want {
		return fmt.Errorf("ffmpeg wrote %d frames of the clip's %d: not valid", written, want)
	}
	return nil
}

// ffmpegOutcome is what ffmpeg says of itself.
type ffmpegOutcome struct {
	elapsed, cpu float64 // seconds
	frames       int64
	poolThreads  float64
}

var (
	benchLine  = regexp.MustCompile(`(?m)^bench: utime=([0-9.]+)s stime=([0-9.]+)s rtime=([0-9.]+)s`)
	framesLine = regexp.MustCompile(`(?m)(?:^|\r)frame= *([0-9]+) `)
	poolLine   = regexp.MustCompile(`Thread pool created using ([0-9]+) threads`)
)

// parseFFmpeg reads what ffmpeg -benchmark prints on standard error.
func parseFFmpeg(stderr []byte) (ffmpegOutcome, error) {
	var o ffmpegOutcome
	bench := benchLine.FindSubmatch(stderr)
	if bench == nil {
		return o, fmt.Errorf("ffmpeg printed no figures of its own (bench: utime=... stime=... rtime=...); its last words: %s", tail(stderr))
	}
	var seconds [3]float64
	for i := range seconds {
		v, err := strconv.ParseFloat(string(bench[i+1]), 64)
		if err != nil {
			return o, fmt.Errorf("figures of ffmpeg %q: %w", bench[0], err)
		}
		seconds[i] = v
	}
	o.cpu, o.elapsed = seconds[0]+seconds[1], seconds[2]
	if o.elapsed <= 0 {
		return o, fmt.Errorf("figures of ffmpeg %q: took no time", bench[0])
	}
	// Progress may have been printed before; the last line is the whole.
	counts := framesLine.FindAllSubmatch(stderr, -1)
	if len(counts) == 0 {
		return o, fmt.Errorf("ffmpeg printed no count of frames; its last words: %s", tail(stderr))
	}
	frames, err := strconv.ParseInt(string(counts[len(counts)-1][1]), 10, 64)
	if err != nil {
		return o, fmt.Errorf("frames of ffmpeg: %w", err)
	}
	o.frames = frames
	// Several pools where there are several memory nodes.
	for _, pool := range poolLine.FindAllSubmatch(stderr, -1) {
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(pool[1])), 64)
		if err != nil {
			return o, fmt.Errorf("thread pool of x265: %w", err)
		}
		o.poolThreads += n
	}
	return o, nil
}
