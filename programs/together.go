package programs

import "embed"

// Together are the C sources of together, which runs a command several times at once,
// in the directory "together".
//
//go:embed together/*.c
var Together embed.FS

// TogetherFlags are the compiler's flags for it, the same as in its Makefile.
var TogetherFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// TogetherSources names what it is compiled from.
var TogetherSources = []string{"together.c"}
