package pagetable

// Entry is one entry of a page table, with what is known of its frame.
//
//	bits 0-39   the frame's number, or, of a swapped page, its place in swap
//	bits 40-63  what follows
type Entry uint64

// What an entry is, and what its frame is. The first group is the entry's own;
// the second comes from /proc/kpageflags, and is absent where Census.Flags is false.
const (
	Present  Entry = 1 << (40 + iota)
	Swapped        // not present: its page is in swap
	Writable       // known to the walk alone
	Dirty          // known to the walk alone
	// Accessed is known to the walk alone: the processor has used the entry since the kernel last cleared it,
	// as it may at any time.
	Accessed
	Huge      // mapped by one entry of a higher level: 2 MiB or more
	Zero      // the kernel's page of zeros, or its huge sister
	FileFrame // file page or shared memory, as pagemap's bit 61 says it; see Walk

	Anon              // an anonymous frame
	Active            // on the active list
	Referenced        // PG_referenced
	OnList            // on any list of reclaim
	Unevictable       // locked, or on the unevictable list
	THP               // belongs to a large page that the kernel made of its own accord: 2 MiB or less
	Large             // belongs to a page of more than one frame
	SwapCache         // has a place in swap too
	SwapBacked        // anonymous or shared memory
	KSM               // merged by the kernel
	Idle              // idle since it was last asked for
	DirtyFrame        // differs from what is on disk
	NoFrame           // no page of memory: a device's
	SharedFrame       // mapped more than once: pagemap's bit 56 is clear; known to Files alone
	Frames      Entry = 1<<40 - 1
)

// Frame is the number of the physical page, or the place in swap.
func (e Entry) Frame() uint64 { return uint64(e & Frames) }

// Has reports whether all of flags are set.
func (e Entry) Has(flags Entry) bool { return e&flags == flags }
