package programs

import "embed"

// Supervise are the C sources of supervise, which runs several programs as one, in
// the directory "supervise".
//
//go:embed supervise/*.c
var Supervise embed.FS

// SuperviseFlags are the compiler's flags for it, the same as in its Makefile.
var SuperviseFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// SuperviseSources names what it is compiled from.
var SuperviseSources = []string{"supervise.c"}
