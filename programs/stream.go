package programs

import "embed"

// Stream are the C sources of the memory bandwidth program, on threads and on the
// ranks of MPI, in the directory "stream".
//
//go:embed stream/*.c stream/*.h
var Stream embed.FS

// StreamFlags are the compiler's flags for the program on threads, the same as in
// its Makefile. Loops stay loops (a copy would become a call of the C library's,
// which has its own idea of which stores to use); the binary is static, so that it
// runs in an empty root.
var StreamFlags = []string{
	"-std=gnu17", "-O3", "-fno-tree-loop-distribute-patterns", "-fopenmp", "-static", "-s", "-Wall", "-Wextra", "-Werror",
}

// StreamSources names what it is compiled from.
var StreamSources = []string{"stream.c", "serve.c", "kernels.c", "streaming.c", "cache.c", "result.c"}

// StreamMPIFlags are those for the program on ranks. No MPI library is to be had for
// static programs.
var StreamMPIFlags = []string{
	"-std=gnu17", "-O3", "-fno-tree-loop-distribute-patterns", "-s", "-Wall", "-Wextra", "-Werror",
}

// StreamMPISources names what that is compiled from.
var StreamMPISources = []string{"stream-mpi.c", "kernels.c", "streaming.c", "cache.c", "result.c"}
