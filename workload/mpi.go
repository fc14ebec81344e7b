package workload

import (
	"slices"
	"strconv"

	"tare/image"
)

// mostRanks bounds how many ranks a program of MPI may have here: all are on one host.
const mostRanks = 1024

// mpiCommand starts a program on so many ranks of this host, by MPICH. The launcher
// forks its proxy, where it would else ask for a remote shell, and all find each other
// by loopback's address: no name has to resolve, and no network has to be there.
func mpiCommand(ranks int64, program ...string) []string {
	return mpich.command(strconv.FormatInt(ranks, 10), program...)
}

// mpiEnvironment is what mpiCommand's programs need.
var mpiEnvironment = mpich.environment

// mpiMemory bounds what MPICH itself takes, in bytes: its launcher, proxy and library,
// and of each rank its buffers (13 MiB by one rank and 70 by sixteen were measured),
// with those of 16 MiB that collective output has.
func mpiMemory(ranks int64) int64 { return 32<<20 + ranks*24<<20 }

// mpiLibrary is an implementation of MPI: how its ranks are started on this host, and
// how they exchange. Each is configured to do it alike: processes forked, messages copied
// through shared memory of System V, CPUs left to the scheduler.
type mpiLibrary struct {
	name        string   // of the parameter
	calls       string   // what the library calls itself
	launcher    []string // the number of ranks follows
	environment []string
}

// mpich exchanges by shared memory alone, which every platform gives: without that it
// tries networks, of which a container may have none, and reading another process's
// memory, which a container may forbid.
var mpich = mpiLibrary{
	name: image.LibraryMPICH, calls: "MPICH",
	launcher:    []string{image.MPIExec, "-launcher", "fork", "-hosts", "127.0.0.1", "-localhost", "127.0.0.1", "-n"},
	environment: []string{"UCX_TLS=self,sysv"},
}

// openMPI is S2's. It is configured the same by parameters, which it takes from the
// environment.
var openMPI = mpiLibrary{
	name: image.LibraryOpenMPI, calls: "Open MPI",
	launcher: []string{image.OpenMPIExec, "-n"},
	environment: []string{
		// Programs are root inside, and confined from outside.
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		// This host alone: no remote shell, and the launcher at loopback.
		"OMPI_MCA_plm=isolated", "OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_orte_tmpdir_base=/tmp",
		// A quota of fewer CPUs than the machine has is not for it to judge, nor is the
		// CPU that a rank runs on: a rank that it binds would be pinned where tare does not pin.
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
		// Messages by shared memory, and copied through it, since reading another process's
		// memory at once is what Docker's filter forbids and bare metal does not. Of System V:
		// the file that it would map lies on the disk here and in memory there.
		"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_shmem=sysv",
		// The programs give way themselves, alike with either library.
		"OMPI_MCA_mpi_yield_when_idle=0",
		// The image has no libraries for the parts that would serve other networks.
		"OMPI_MCA_mca_base_component_show_load_errors=0",
	},
}

// command starts a program on so many ranks.
func (l mpiLibrary) command(ranks string, program ...string) []string {
	return slices.Concat(l.launcher, []string{ranks}, program)
}
