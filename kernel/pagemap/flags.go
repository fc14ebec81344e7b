package pagemap

// Flags is a word of /proc/kpageflags: what the kernel knows of a frame.
type Flags uint64

// The flags, by the names of include/uapi/linux/kernel-page-flags.h without
// their KPF_.
const (
	Locked       Flags = 1 << 0
	Referenced   Flags = 1 << 2
	UpToDate     Flags = 1 << 3
	Dirty        Flags = 1 << 4
	LRU          Flags = 1 << 5
	Active       Flags = 1 << 6
	Slab         Flags = 1 << 7
	Writeback    Flags = 1 << 8
	Buddy        Flags = 1 << 10
	Mapped       Flags = 1 << 11
	Anon         Flags = 1 << 12
	SwapCache    Flags = 1 << 13
	SwapBacked   Flags = 1 << 14
	CompoundHead Flags = 1 << 15
	CompoundTail Flags = 1 << 16
	HugeTLB      Flags = 1 << 17
	Unevictable  Flags = 1 << 18
	Poisoned     Flags = 1 << 19
	NoPage       Flags = 1 << 20
	KSM          Flags = 1 << 21
	THP          Flags = 1 << 22 // any large page that the kernel made of its own accord, whatever its size
	Offline      Flags = 1 << 23
	ZeroPage     Flags = 1 << 24
	Idle         Flags = 1 << 25
	PageTable    Flags = 1 << 26
)
