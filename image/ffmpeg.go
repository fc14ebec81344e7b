package image

import (
	"context"
	"fmt"
	"path"
	"strconv"
)

var ffmpegRecipe = recipe{
	name:        "ffmpeg",
	summary:     "ffmpeg with the H.264 and H.265 encoders, and clips of its own making in /clips",
	packages:    []string{"ffmpeg"},
	programs:    []string{"/usr/bin/ffmpeg", "/usr/bin/ffprobe"},
	directories: []string{"clips", "data"},
	config:      Config{Cmd: []string{"/usr/bin/ffmpeg", "-version"}, WorkingDir: "/data"},
	add:         makeClips,
}

// clips are the inputs, by name and length in seconds: 1280x720 at 25 frames
// a second.
var clips = []struct {
	name    string
	seconds int
}{
	{"720p-1s.mp4", 1},
	{"720p-5s.mp4", 5},
}

// makeClips has ffmpeg's own sources and encoders make the clips. Every CPU
// must make the same bytes: one thread, no hand-written vector code, constant
// quantiser (so that no rate control decides by floating point), lossless
// audio by integers, and a C library that does not choose its mathematics by
// the CPU at hand.
func makeClips(ctx context.Context, b *build) error {
	env := []string{"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-FMA,-FMA4"}
	for _, c := range clips {
		length := strconv.Itoa(c.seconds)
		_, err := b.chroot(ctx, b.root, env, "/usr/bin/ffmpeg",
			"-nostdin", "-hide_banner", "-loglevel", "error", "-cpuflags", "0", "-filter_threads", "1",
			"-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25:duration="+length,
			"-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration="+length,
			"-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1",
			"-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p",
			"-x264-params", "asm=0:threads=1:lookahead-threads=1:qp=23:mbtree=0:aq-mode=0",
			"-c:a", "flac", "-lpc_type", "fixed", "-strict", "experimental",
			path.Join("/clips", c.name))
		if err != nil {
			return fmt.Errorf("make clip %s: %w", c.name, err)
		}
	}
	return nil
}
