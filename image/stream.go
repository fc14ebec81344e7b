package image

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"tare/programs"
)

// streamRecipe holds one static program, compiled inside a root of its own
// from locked packages, so that neither the host's compiler nor its C library
// decides what is measured.
var streamRecipe = recipe{
	name:     "stream",
	summary:  "memory bandwidth by the copy, scale, add and triad kernels",
	programs: []string{"/usr/bin/stream"},
	config:   Config{Cmd: []string{"/usr/bin/stream"}, WorkingDir: "/"},
	tools:    compilerRecipe.name,
	add:      compileStream,
	sources: func() []byte {
		return bytes.Join([][]byte{programs.Stream, []byte(strings.Join(programs.StreamFlags, " "))}, []byte{0})
	},
}

// compilerRecipe is GCC with what static programs link. Its programs run each
// other by name, so that all are named.
var compilerRecipe = recipe{
	name:     "compiler",
	packages: []string{"gcc-12", "libc6-dev"},
	programs: []string{
		"/usr/bin/*-linux-gnu-gcc-12", "/usr/lib/gcc/*/12/cc1", "/usr/lib/gcc/*/12/collect2",
		"/usr/bin/*-linux-gnu-as", "/usr/bin/*-linux-gnu-ld",
	},
	keep: []string{"binutils", "libgcc-12-dev", "linux-libc-dev"},
}

func compileStream(ctx context.Context, b *build) error {
	if err := os.WriteFile(filepath.Join(b.tools, "tmp", "stream.c"), programs.Stream, 0o644); err != nil {
		return err
	}
	command := append([]string{"/usr/bin/gcc-12"}, programs.StreamFlags...)
	// No build ID: it would hash the linker's map of input, which names temporary files.
	command = append(command, "-Wl,--build-id=none", "-o", "/tmp/stream", "/tmp/stream.c", "-lm")
	if _, err := b.chroot(ctx, b.tools, nil, command...); err != nil {
		return err
	}
	if err := b.makeDirectories([]string{"usr/bin"}); err != nil {
		return err
	}
	return copyProgram(filepath.Join(b.tools, "tmp", "stream"), filepath.Join(b.root, "usr/bin/stream"))
}

// copyProgram copies an executable, whatever the umask.
func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		return err
	}
	return os.Chmod(to, 0o755)
}
