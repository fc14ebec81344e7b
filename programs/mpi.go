package programs

import "embed"

// MPI are the C sources of the programs that exchange between the ranks of MPI more
// than they compute, and of what counts the CPUs for their launcher, in the directory
// "mpi".
//
//go:embed mpi/*.c mpi/*.h
var MPI embed.FS

// MPIFlags are the compiler's flags for the programs on ranks, the same as in their
// Makefile. They are no static binaries: the libraries of MPI are shared ones.
var MPIFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-s", "-Wall", "-Wextra", "-Werror"}

// What each is compiled from.
var (
	MPISearchSources = []string{"search.c", "exchange.c"}
	MPIPrimesSources = []string{"primes.c", "exchange.c"}
)

// GrantedFlags are the compiler's flags for granted, the same as in its Makefile.
var GrantedFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// GrantedSources names what it is compiled from.
var GrantedSources = []string{"granted.c"}
