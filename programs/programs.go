// Package programs holds the sources of what runs inside images, so that the
// instrument carries what it builds. Each program has a directory with its own
// language's ordinary build and test; package image compiles the same sources
// inside a locked compiler's root.
//
// It compiles and runs nothing.
package programs

import _ "embed"

// Stream is the C source of the memory bandwidth program.
//
//go:embed stream/stream.c
var Stream []byte

// StreamFlags are the compiler's flags for it, the same as in its Makefile.
// Loops stay loops (a copy would become a call of the C library's, which has
// its own idea of which stores to use); the binary is static, so that it runs
// in an empty root.
var StreamFlags = []string{
	"-std=gnu17", "-O3", "-fno-tree-loop-distribute-patterns", "-fopenmp", "-static", "-s", "-Wall", "-Wextra", "-Werror",
}
