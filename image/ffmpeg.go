package image

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"

	"tare/programs"
)

// TogetherProgram runs a command several times at once, in the image ffmpeg.
const TogetherProgram = "/usr/bin/together"

var ffmpegRecipe = recipe{
	name:        "ffmpeg",
	summary:     "ffmpeg with the H.264 and H.265 encoders, and clips of its own making in /clips, some also cut into parts",
	packages:    []string{"ffmpeg"},
	programs:    []string{"/usr/bin/ffmpeg", "/usr/bin/ffprobe"},
	directories: []string{"clips", zoomParts[1:], "data"},
	config:      Config{Cmd: []string{"/usr/bin/ffmpeg", "-version"}, WorkingDir: "/data"},
	tools:       compilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		for _, command := range slices.Concat(patternCommands(), zoomCommands()) {
			if _, err := b.chroot(ctx, b.root, clipEnvironment, command...); err != nil {
				return fmt.Errorf("make clip %s: %w", command[len(command)-1], err)
			}
		}
		sources, err := sourcesIn(programs.Together)
		if err != nil {
			return err
		}
		return b.compile(ctx, TogetherProgram[1:], sources, programs.TogetherFlags, programs.TogetherSources...)
	},
	sources: func() ([]byte, error) {
		return sourcesOf(programs.Together, slices.Concat(programs.TogetherFlags, programs.TogetherSources),
			[]byte(fmt.Sprint(clipEnvironment, patternCommands(), zoomCommands())))
	},
}

// clips are test patterns, by name and length in seconds: 1280x720 at 25 frames
// a second.
var clips = []struct {
	name    string
	seconds int
}{
	{"720p-1s.mp4", 1},
	{"720p-5s.mp4", 5},
}

// CutClip is a clip that the image ffmpeg also has cut into parts of a second each.
type CutClip struct {
	Path    string
	Seconds int // as many parts has it
}

// zoomClips are flights into the Mandelbrot set under film grain, 640x360 at 25 frames
// a second; the shorter ones are how the longest begins, so that all share its parts. A
// test pattern stands still where a film does not, and is done with in two thirds of the
// time: here the picture grows out of its middle all the time, has smooth parts and
// parts full of detail, and no frame repeats the grain of another. At 2.4 Mbit/s
// they have as many bits a pixel as S2's clip, 30 MB in 30 s, would at 1280x720.
var zoomClips = []CutClip{{"/clips/zoom-5s.mp4", 5}, {"/clips/zoom-30s.mp4", 30}}

const zoomParts = "/clips/zoom"

// CutClips lists the clips that are there in parts, too, the shortest first.
func CutClips() []CutClip { return slices.Clone(zoomClips) }

// PartName is the nth part's word in [PartOf].
func PartName(n int) string { return fmt.Sprintf("%02d", n) }

// PartOf is the path of a part of every cut clip, by its name.
func PartOf(name string) string { return path.Join(zoomParts, name+".mp4") }

// The encoder of all clips. Every CPU must make the same bytes: one thread, no
// hand-written vector code, constant quantiser (so that no rate control decides by
// floating point), and a C library that does not choose its mathematics by the CPU at hand.
var (
	clipEnvironment = []string{"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-FMA,-FMA4"}
	clipArguments   = []string{"-nostdin", "-hide_banner", "-loglevel", "error", "-cpuflags", "0", "-filter_threads", "1"}
	clipExact       = []string{"-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1"}
	clipEncoder     = []string{"-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-x264-params"}
)

const clipQuantiser = "asm=0:threads=1:lookahead-threads=1:mbtree=0:aq-mode=0:qp="

// clipCommand makes one clip, or several whose names follow a pattern.
func clipCommand(clip string, arguments ...[]string) []string {
	return slices.Concat([]string{"/usr/bin/ffmpeg"}, clipArguments, slices.Concat(arguments...), []string{clip})
}

// patternCommands have ffmpeg's own sources and encoders make the test patterns, with
// lossless audio by integers.
func patternCommands() [][]string {
	var commands [][]string
	for _, c := range clips {
		length := strconv.Itoa(c.seconds)
		commands = append(commands, clipCommand(path.Join("/clips", c.name), []string{
			"-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25:duration=" + length,
			"-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=" + length,
		}, clipExact, clipEncoder, []string{clipQuantiser + "23", "-c:a", "flac", "-lpc_type", "fixed", "-strict", "experimental"}))
	}
	return commands
}

// zoomCommands make the longest of zoomClips, with a key frame each second beyond which
// no later frame looks back, and cut the others and the parts out of it without encoding
// anything again.
func zoomCommands() [][]string {
	const rate = 25
	whole := zoomClips[len(zoomClips)-1]
	picture := fmt.Sprintf("mandelbrot=size=640x360:rate=%d:maxiter=512:start_scale=2:end_scale=0.1:end_pts=%d:inner=mincol,"+
		"trim=duration=%d,noise=alls=6:all_seed=1:allf=t", rate, rate*whole.Seconds, whole.Seconds)
	commands := [][]string{clipCommand(whole.Path, []string{"-f", "lavfi", "-i", picture}, clipExact, clipEncoder,
		[]string{fmt.Sprintf("%s26:keyint=%d:min-keyint=%[2]d:scenecut=0:open-gop=0", clipQuantiser, rate)})}
	cut := []string{"-i", whole.Path, "-map", "0", "-c", "copy"}
	for _, c := range zoomClips[:len(zoomClips)-1] {
		// By frames: in time some of the next second come before its first one.
		commands = append(commands, clipCommand(c.Path, cut, clipExact, []string{"-frames:v", strconv.Itoa(rate * c.Seconds)}))
	}
	return append(commands, clipCommand(path.Join(zoomParts, "%02d.mp4"), cut, clipExact, []string{
		"-f", "segment", "-segment_time", "1", "-segment_format", "mp4", "-segment_format_options", "fflags=+bitexact", "-reset_timestamps", "1",
	}))
}
