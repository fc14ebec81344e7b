package image

import (
	"context"
	"slices"

	"tare/programs"
)

// What haccio's image holds, besides MPICH.
const (
	HaccioProgram = "/usr/bin/haccio"
	// HaccioData is where checkpoints are written; it is empty, so that each kind of
	// storage can lie behind it.
	HaccioData = "/data"
)

// haccioRecipe holds MPICH and one program on it.
var haccioRecipe = recipe{
	name:        "haccio",
	summary:     "checkpoints written and read by the ranks of an MPI program",
	packages:    mpiPackages,
	programs:    mpiPrograms,
	links:       mpiLinks,
	directories: []string{HaccioData[1:]},
	config:      Config{Cmd: []string{MPIExec, "-n", "1", HaccioProgram, "--dir", HaccioData, "--particles", "1000000"}, WorkingDir: HaccioData},
	tools:       mpiCompilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		sources, err := sourcesIn(programs.Haccio)
		if err != nil {
			return err
		}
		return b.compileMPI(ctx, HaccioProgram[1:], sources, programs.HaccioFlags, programs.HaccioSources...)
	},
	sources: func() ([]byte, error) {
		return sourcesOf(programs.Haccio, slices.Concat(programs.HaccioFlags, programs.HaccioSources))
	},
}
