package workload

import (
	"context"
	"fmt"
	"slices"

	"tare/image"
)

// streamMPI is stream on the ranks of MPI, the form that S5 ran. The elements are of
// each whole array, over all ranks, as the benchmark's own MPI version has it and as
// S5's sizes are: its 50 million are called 762.5 MB, and 8 ranks of 500 million each
// would not have fitted into its host.
type streamMPI struct{ workloadOf[streamMPIPlan] }

func (streamMPI) Name() string { return "stream-mpi" }
func (streamMPI) Summary() string {
	return "memory bandwidth: the same kernels on the ranks of an MPI program"
}
func (streamMPI) Source() Source { return Source{Recipe: "stream-mpi"} }

type streamMPIPlan struct {
	streamWork
	processes int64
}

func (plan streamMPIPlan) parse(from *parameters) streamMPIPlan {
	plan.elements = from.streamElements(" over all ranks")
	plan.processes = from.whole("processes", 1, 1, mostRanks,
		"ranks, RANGE; each has its part of the arrays. More than CPUs take turns")
	if plan.elements > 0 && plan.elements < plan.processes {
		from.refuse("elements", fmt.Sprintf("an element for each of %d processes, at least", plan.processes))
	}
	plan.repetitions = from.streamRepetitions()
	plan.stores = from.streamStores()
	return plan
}

func (plan streamMPIPlan) program() Program {
	args := slices.Concat([]string{image.StreamMPIProgram}, plan.passes(), plan.arguments())
	return Program{
		Args:       mpiCommand(plan.processes, args...),
		Env:        mpiEnvironment,
		Data:       []string{"/data"}, // which it leaves alone
		MemoryNeed: plan.memory() + mpiMemory(plan.processes),
		Needs:      []string{image.MPIExec, image.StreamMPIProgram},
	}
}

func (streamMPIPlan) metrics() []Metric { return streamMetrics("iteration") }

func (streamMPIPlan) drive(ctx context.Context, t Trial) error { return driveStream(ctx, t) }
