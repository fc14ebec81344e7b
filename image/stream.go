package image

import (
	"context"
	"slices"

	"tare/programs"
)

// StreamMPIProgram is stream on ranks, in the image stream-mpi.
const StreamMPIProgram = "/usr/bin/stream-mpi"

// streamRecipe holds one static program, compiled inside a root of its own
// from locked packages, so that neither the host's compiler nor its C library
// decides what is measured.
var streamRecipe = recipe{
	name:     "stream",
	summary:  "memory bandwidth by the copy, scale, add and triad kernels",
	programs: []string{"/usr/bin/stream"},
	config:   Config{Cmd: []string{"/usr/bin/stream"}, WorkingDir: "/"},
	tools:    compilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		sources, err := sourcesIn(programs.Stream)
		if err != nil {
			return err
		}
		return b.compile(ctx, "usr/bin/stream", sources, programs.StreamFlags, slices.Concat(programs.StreamSources, []string{"-lm"})...)
	},
	sources: func() ([]byte, error) {
		return sourcesOf(programs.Stream, slices.Concat(programs.StreamFlags, programs.StreamSources))
	},
}

// streamMPIRecipe holds the same on the ranks of MPI, with what starts them, and a
// directory that nothing touches: what is mounted there makes no difference.
var streamMPIRecipe = recipe{
	name:        "stream-mpi",
	summary:     "the same kernels on the ranks of an MPI program (MPICH)",
	packages:    mpiPackages,
	programs:    mpiPrograms,
	links:       mpiLinks,
	directories: []string{"data"},
	config:      Config{Cmd: []string{MPIExec, StreamMPIProgram}, WorkingDir: "/"},
	tools:       mpiCompilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		sources, err := sourcesIn(programs.Stream)
		if err != nil {
			return err
		}
		return b.compileMPI(
			ctx,
			StreamMPIProgram[1:],
			sources,
			programs.StreamMPIFlags,
			slices.Concat(programs.StreamMPISources, []string{"-lm"})...)
	},
	sources: func() ([]byte, error) {
		return sourcesOf(programs.Stream, slices.Concat(programs.StreamMPIFlags, programs.StreamMPISources))
	},
}
