package programs

import "embed"

// Haccio are the C sources of haccio, which writes and reads checkpoints from the
// ranks of an MPI program, in the directory "haccio".
//
//go:embed haccio/*.c haccio/*.h
var Haccio embed.FS

// HaccioFlags are the compiler's flags for it, the same as in its Makefile. It is no
// static binary: MPICH's library is a shared one.
var HaccioFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-s", "-Wall", "-Wextra", "-Werror"}

// HaccioSources names what it is compiled from.
var HaccioSources = []string{"haccio.c", "checkpoint.c", "pagecache.c", "transfer.c"}
