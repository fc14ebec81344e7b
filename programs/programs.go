// Package programs holds the sources of what runs inside images, so that the
// instrument carries what it builds. Each program has a directory with its own
// language's ordinary build and test; package image compiles the same sources
// inside a locked compiler's root.
//
// It compiles and runs nothing.
package programs

import "embed"

// Empty is the C source of the program that does nothing until it is ended.
//
//go:embed empty/empty.c
var Empty []byte

// EmptyFlags are the compiler's flags for it, the same as in its Makefile: no C
// library, no table but what the kernel reads.
var EmptyFlags = []string{
	"-std=gnu17", "-O2", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
	"-fno-pie", "-no-pie", "-nostdlib", "-static", "-s", "-Wall", "-Wextra", "-Werror",
}

// Functions are the C sources of the functions, in the directory "functions".
//
//go:embed functions/*.c functions/*.h
var Functions embed.FS

// FunctionFlags are the compiler's flags for them, the same as in their
// Makefile.
var FunctionFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// FunctionSources names what a function is compiled from, besides its own
// source: the frame that all have.
var FunctionSources = []string{"function.c", "input.c"}

// PageRank are the C sources of pagerank, in the directory "pagerank".
//
//go:embed pagerank/*.c pagerank/*.h
var PageRank embed.FS

// PageRankFlags are the compiler's flags for it, the same as in its Makefile.
var PageRankFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// PageRankSources names what it is compiled from.
var PageRankSources = []string{"pagerank.c", "graph.c"}
