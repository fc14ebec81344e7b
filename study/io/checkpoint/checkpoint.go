// Package checkpoint asks what the storage of a container costs a checkpoint: S5's
// experiment with HACC-IO (Measuring the IO Overhead of Container Technology,
// section 3.II). MPI ranks write particles of 38 bytes, and read them back: on bare
// metal, in the container's layer, a bind mount, a volume.
//
// A cell is a number of particles and ranks, and how they are written: by which
// calls, to how many files, brought to the disk or not; and what becomes of the page
// cache between writing and reading, which decides whether the disk is read at all.
// S5's reads were kept in memory, and ran at three times what its disk gives.
//
// Beside the program stands a floor in every block: fio, which writes and reads the
// same bytes with the same flags on the same file system. What a place gives is
// shown as a share of it, so that a reader sees whether the disk speaks or the
// platform; and on bare metal the program has to be equivalent to it.
//
// Before a trial is measured everything is brought to the disks that earlier trials
// and others have written (trial.go). The page cache of the host is not dropped:
// only the program's own files are, by itself.
//
// Files in memory (tmpfs) stand in cells of their own, whose baseline is bare metal
// with files in memory: a disk is not what they are to be compared with.
package checkpoint

// The workloads: S5's program, and what shows what the disk gives. Their parameters
// have the same names.
const (
	program = "haccio"
	floor   = "fio-checkpoint"
)

// Factors of a cell, and parameters of the workloads.
const (
	factorParticles = "particles" // of each rank
	factorRanks     = "ranks"
	factorAPI       = "api"
	factorLayout    = "layout"
	factorCache     = "cache"
	factorSync      = "sync"

	// factorDisk is the file system that a condition's data lie on: its device's
	// number, or inMemory; absent where it is not known.
	factorDisk = "disk"
)

// Levels of the factors. S5's are the first of each.
const (
	POSIX           = "posix"
	MPIIO           = "mpiio" // each rank by itself
	MPIIOCollective = "mpiio-collective"

	FilePerRank = "file-per-rank"
	Shared      = "shared"

	Kept     = "kept"     // what was written may be read from the page cache
	Dropped  = "dropped"  // the files' pages are given back before they are read
	Bypassed = "bypassed" // neither goes through the page cache

	NoSync = "none"
	Fsync  = "fsync"
)

// The levels, as help texts list them.
var (
	APIs    = []string{POSIX, MPIIO, MPIIOCollective}
	Layouts = []string{FilePerRank, Shared}
	Caches  = []string{Kept, Dropped, Bypassed}
	Syncs   = []string{NoSync, Fsync}
)

// S5's grid: particles of a rank, and ranks.
var (
	PublishedParticles = []int64{1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000}
	PublishedRanks     = []int{1, 2, 4, 8}
)

// particleSize is a particle's in bytes: seven floats, an id of eight bytes, a mask
// of two.
const particleSize = 38

// inMemory is the disk of what has none.
const inMemory = "memory"

// withFio is the floor's name.
const withFio = "fio"

// The metrics, in bytes a second.
const (
	write = "write"
	read  = "read"
)

// metrics lists them in the order in which they are shown.
var metrics = []string{write, read}

// cached is the metric of the program that says which share of its files' pages was in
// the page cache when reading began.
const cached = "cached"

// How long the slowest rank wrote, and how long it took from the first rank's beginning to
// the last one's end.
const (
	writeTime = "write-time"
	writeSpan = "write-span"
)

// Covariates of a trial.
const (
	flushSeconds    = "flush_s"                // to bring to the disks what was there before
	dirtyBefore     = "dirty_before_bytes"     // left after that, on the whole host
	dirtyLimit      = "dirty_limit_bytes"      // from where on writers wait
	dirtyBackground = "dirty_background_bytes" // from where on the kernel writes back beside them
)
