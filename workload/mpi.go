package workload

import (
	"strconv"

	"tare/image"
)

// mostRanks bounds how many ranks a program of MPI may have here: all are on one host.
const mostRanks = 1024

// mpiCommand starts a program on so many ranks of this host. The launcher forks
// its proxy, where it would else ask for a remote shell, and all find each other by
// loopback's address: no name has to resolve, and no network has to be there.
func mpiCommand(ranks int64, program ...string) []string {
	return append([]string{
		image.MPIExec, "-launcher", "fork", "-hosts", "127.0.0.1", "-localhost", "127.0.0.1",
		"-n", strconv.FormatInt(ranks, 10),
	}, program...)
}

// mpiEnvironment has ranks exchange by shared memory alone, which every platform
// gives them: without it MPICH tries networks, of which a container may have none,
// and reading another process's memory, which a container may forbid.
var mpiEnvironment = []string{"UCX_TLS=self,sysv"}

// mpiMemory bounds what MPICH itself takes, in bytes: its launcher, proxy and library,
// and of each rank its buffers (13 MiB by one rank and 70 by sixteen were measured),
// with those of 16 MiB that collective output has.
func mpiMemory(ranks int64) int64 { return 32<<20 + ranks*24<<20 }
