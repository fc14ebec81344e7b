package image

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
)

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

// source is what a compiled program is made of, for the recipe's key.
func source(flags []string, files ...[]byte) []byte {
	return bytes.Join(append(files, []byte(strings.Join(flags, " "))), []byte{0})
}

// compile compiles sources, by name, inside the tools' root and puts the
// program into the image's. The last arguments are what is handed to the
// compiler: those of the sources that are no headers, and libraries.
func (b *build) compile(
	ctx context.Context,
	program string,
	sources map[string][]byte,
	flags []string,
	last ...string,
) error {
	const at = "/tmp"
	for _, name := range sortedKeys(sources) {
		if err := os.WriteFile(filepath.Join(b.tools, at, name), sources[name], 0o644); err != nil {
			return err
		}
	}
	command := append([]string{"/usr/bin/gcc-12"}, flags...)
	// No build ID: it would hash the linker's map of input, which names temporary files.
	command = append(command, "-Wl,--build-id=none", "-o", path.Join(at, "program"))
	for _, name := range last {
		if _, ok := sources[name]; ok {
			name = path.Join(at, name)
		}
		command = append(command, name)
	}
	if _, err := b.chroot(ctx, b.tools, nil, command...); err != nil {
		return err
	}
	if err := b.makeDirectories([]string{path.Dir(program)}); err != nil {
		return err
	}
	return copyProgram(filepath.Join(b.tools, at, "program"), filepath.Join(b.root, program))
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
