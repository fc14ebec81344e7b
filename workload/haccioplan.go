package workload

import "fmt"

// particleBytes is what a particle of HACC's takes in a checkpoint: positions,
// velocities and potential, 4 bytes each, a number of 8 and a mask of 2.
const particleBytes = 38

// S5Header is what S5's files have beyond their particles, in bytes a rank.
const S5Header = 24 << 20

// Bounds of a checkpoint, and what reads and writes past the page cache come in.
const (
	mostParticles = 1_000_000_000
	mostHeader    = 1 << 30
	mostBuffer    = 1 << 30
	directBlock   = 4096
)

// Values of the parameters of checkpoints.
const (
	apiPOSIX           = "posix"
	apiMPIIO           = "mpiio"
	apiMPIIOCollective = "mpiio-collective"

	layoutOwn    = "file-per-rank"
	layoutShared = "shared"

	cacheKept     = "kept"
	cacheDropped  = "dropped"
	cacheBypassed = "bypassed"

	syncNone  = "none"
	syncFsync = "fsync"

	bufferField = "field"
)

// checkpoint is the parameters of both programs that write and read one, parsed.
type checkpoint struct {
	ranks, particles, header, seed int64
	buffer                         int64 // 0: a field
	api, layout, cache, sync       string
}

func (c checkpoint) parse(from *parameters) checkpoint {
	c.ranks = from.whole("ranks", 1, 1, mostRanks, "processes, RANGE; more than CPUs take turns")
	c.particles = from.whole("particles", 1_000_000, 1, mostParticles,
		fmt.Sprintf("of a rank, %d bytes each, RANGE", particleBytes))
	c.api = from.word("api", apiPOSIX, "posix, mpiio (independent calls) or mpiio-collective",
		apiPOSIX, apiMPIIO, apiMPIIOCollective)
	c.layout = from.word("layout", layoutOwn, "file-per-rank, or shared: one file, in which the ranks' parts follow each other",
		layoutOwn, layoutShared)
	c.cache = from.word("cache", cacheKept, "the page cache between write and read: kept (as S5); "+
		"dropped: the files are brought to the disk and let go, outside of the times; "+
		"bypassed: written and read past it (O_DIRECT; posix only)", cacheKept, cacheDropped, cacheBypassed)
	if c.cache == cacheBypassed && c.api != apiPOSIX {
		from.refuse("cache", "kept or dropped with api="+c.api+", which has no way past the page cache")
	}
	c.sync = from.word("sync", syncNone, "none, or fsync: in the time of the write", syncNone, syncFsync)
	buffer := from.text("buffer", bufferField, fmt.Sprintf("the most bytes of one call: field (each field of all particles "+
		"by one call), or %d to %d in multiples of %d", directBlock, mostBuffer, directBlock))
	if buffer != bufferField {
		var ok bool
		if c.buffer, ok = wholeWithin(buffer, directBlock, mostBuffer); !ok || c.buffer%directBlock != 0 {
			from.refuse("buffer", fmt.Sprintf("%s, or a multiple of %d to %d", bufferField, directBlock, mostBuffer))
		}
	}
	c.header = from.whole("header", 0, 0, mostHeader, fmt.Sprintf("bytes before a rank's particles, RANGE; S5's files have %d", S5Header))
	c.seed = from.whole("seed", 1, 1, 1e9, "of what is written, 1 to 10^9")
	return c
}

// share is what a rank writes, in bytes.
func (c checkpoint) share() int64 { return c.header + c.particles*particleBytes }

// room is what a rank's share takes of memory, and of the disk: past the page cache
// only whole blocks are written.
func (c checkpoint) room() int64 { return (c.share() + directBlock - 1) / directBlock * directBlock }

// bytes are those of all ranks.
func (c checkpoint) bytes() int64 { return c.ranks * c.share() }

// checkpointMetrics are those of both programs.
func checkpointMetrics() []Metric {
	return []Metric{
		{Name: "write", Unit: "B/s", Better: Higher, Primary: true, Doc: "bytes of all ranks over the time of the slowest to write its own"},
		{Name: "read", Unit: "B/s", Better: Higher, Primary: true, Doc: "the same of reading them back"},
		{Name: "write-time", Unit: "s", Better: Lower, Doc: "of the slowest rank's write"},
		{Name: "read-time", Unit: "s", Better: Lower, Doc: "of the slowest rank's read"},
	}
}
