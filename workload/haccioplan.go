package workload

import "strconv"

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

// checkpointParams are those of both programs that write and read a checkpoint.
func checkpointParams() []Param {
	return []Param{
		{"ranks", "1", "processes, 1 to " + strconv.Itoa(mostRanks) + "; more than CPUs take turns"},
		{"particles", "1000000", "of a rank, " + strconv.Itoa(particleBytes) + " bytes each, 1 to " + strconv.Itoa(mostParticles)},
		{"api", apiPOSIX, "posix, mpiio (independent calls) or mpiio-collective"},
		{"layout", layoutOwn, "file-per-rank, or shared: one file, in which the ranks' parts follow each other"},
		{"cache", cacheKept, "the page cache between write and read: kept (as S5); dropped: the files are brought to the disk and let go, outside of the times; " +
			"bypassed: written and read past it (O_DIRECT; posix only)"},
		{"sync", syncNone, "none, or fsync: in the time of the write"},
		{"buffer", bufferField, "the most bytes of one call: field (each field of all particles by one call), or 4096 to " +
			strconv.Itoa(mostBuffer) + " in multiples of 4096"},
		{"header", "0", "bytes before a rank's particles, 0 to " + strconv.Itoa(mostHeader) + "; S5's files have " + strconv.Itoa(S5Header)},
		{"seed", "1", "of what is written, 1 to 10^9"},
	}
}

// checkpoint is what the parameters say.
type checkpoint struct {
	ranks, particles, header, seed int64
	buffer                         int64 // 0: a field
	api, layout, cache, sync       string
}

func (p Params) checkpoint() (c checkpoint, err error) {
	for _, number := range []struct {
		name      string
		low, high int64
		to        *int64
	}{
		{"ranks", 1, mostRanks, &c.ranks}, {"particles", 1, mostParticles, &c.particles},
		{"header", 0, mostHeader, &c.header}, {"seed", 1, 1e9, &c.seed},
	} {
		if *number.to, err = p.whole(number.name, number.low, number.high); err != nil {
			return c, err
		}
	}
	for _, word := range []struct {
		name    string
		allowed []string
		to      *string
	}{
		{"api", []string{apiPOSIX, apiMPIIO, apiMPIIOCollective}, &c.api}, {"layout", []string{layoutOwn, layoutShared}, &c.layout},
		{"cache", []string{cacheKept, cacheDropped, cacheBypassed}, &c.cache}, {"sync", []string{syncNone, syncFsync}, &c.sync},
	} {
		if *word.to, err = p.oneOf(word.name, word.allowed...); err != nil {
			return c, err
		}
	}
	if p["buffer"] != bufferField {
		c.buffer, err = p.whole("buffer", directBlock, mostBuffer)
		if err != nil || c.buffer%directBlock != 0 {
			return c, &WrongValue{"buffer", p["buffer"], bufferField + ", or a multiple of 4096 to " + strconv.Itoa(mostBuffer)}
		}
	}
	if c.cache == cacheBypassed && c.api != apiPOSIX {
		return c, &WrongValue{"cache", c.cache, "kept or dropped with api=" + c.api + ", which has no way past the page cache"}
	}
	return c, nil
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
