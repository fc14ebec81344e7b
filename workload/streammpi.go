package workload

import (
	"context"
	"fmt"
	"strconv"

	"tare/image"
)

// streamMPI is stream on the ranks of MPI, the form that S5 ran. The elements are of
// each whole array, over all ranks, as the benchmark's own MPI version has it and as
// S5's sizes are: its 50 million are called 762.5 MB, and 8 ranks of 500 million each
// would not have fitted into its host.
type streamMPI struct{}

func (streamMPI) Name() string { return "stream-mpi" }
func (streamMPI) Summary() string {
	return "memory bandwidth: the same kernels on the ranks of an MPI program"
}
func (streamMPI) Source() Source { return Source{Recipe: "stream-mpi"} }

func (streamMPI) Params() []Param {
	return []Param{
		{"elements", auto, "of each of three arrays over all ranks, 8 bytes each: auto (four times the caches reached, 10 million at least), or 1 to 10^12"},
		{"processes", "1", "ranks, 1 to " + strconv.Itoa(mostRanks) + "; each has its part of the arrays. More than CPUs take turns"},
		{"repetitions", "20", "2 to 250; the first does not count"},
		{"stores", "auto", "auto, plain or streaming (past the caches; x86-64)"},
	}
}

func (streamMPI) Program(p Params) (Program, error) {
	elements, args, err := p.streamArguments()
	if err != nil {
		return Program{}, err
	}
	processes, err := p.whole("processes", 1, mostRanks)
	if err != nil {
		return Program{}, err
	}
	if p["elements"] != auto && elements < processes {
		return Program{}, &WrongValue{"elements", p["elements"], fmt.Sprintf("an element for each of %d processes, at least", processes)}
	}
	return Program{
		Args:       mpiCommand(processes, append([]string{image.StreamMPIProgram}, args...)...),
		Env:        mpiEnvironment,
		Data:       []string{"/data"}, // which it leaves alone
		MemoryNeed: streamArrays(elements) + mpiMemory(processes),
		Needs:      []string{image.MPIExec, image.StreamMPIProgram},
	}, nil
}

func (streamMPI) Metrics(Params) []Metric { return streamMetrics("iteration") }

func (streamMPI) Drive(ctx context.Context, t Trial) error {
	return driveStream(ctx, t)
}
