package faults

// facts is what a fault is typed by, as bpf/faults.c gathers it: all that has to
// be counted for the counts by type to be exact, and no more.
type facts uint16

// State is what a page-table entry says.
type State uint8

// The states.
const (
	None       State = iota // nothing; or a marker that means nothing to a fault
	Writable                // present
	ReadOnly                // present
	Swapped                 // in swap
	Moving                  // being migrated or split; also a device's page, or one that the hardware has spoilt
	Guarded                 // a guard (madvise), or a page that was lost
	Withdrawn               // there, and access withdrawn for a while
	Unreadable              // a table could not be read
	states
)

// The bits after the state's three, as in bpf/faults.c.
const (
	factWrite   facts = 1 << 3
	factFetch   facts = 1 << 4
	factKernel  facts = 1 << 5
	factAllowed facts = 1 << 9
	factCount         = 1 << 10

	levelShift = 10
)

// place is what kind of mapping the fault was in.
type place uint8

const (
	nowhere place = iota
	inAnonymous
	inPrivateFile
	inShared
	inGrowingStack // below one, where it grows
	inUnknown
	places
)

func (f facts) state() State { return State(f & 7) }
func (f facts) place() place { return place(f >> 6 & 7) }
func (f facts) level() uint8 { return uint8(f >> levelShift & 3) }

// typ decides the type.
func (f facts) typ() Type {
	switch f.place() {
	case nowhere:
		return Refused
	case inAnonymous, inPrivateFile, inShared, inGrowingStack:
		if f&factAllowed == 0 {
			return Refused
		}
	default:
		return Untyped
	}
	switch f.state() {
	case None:
		return f.filling()
	case Writable:
		return Spurious
	case ReadOnly:
		if f&factWrite != 0 {
			return WriteProtect
		}
		return Spurious
	case Swapped, Moving:
		return Swap
	case Guarded:
		return Refused
	case Withdrawn:
		return Hint
	}
	return Untyped
}

// filling is the type of a fault where no entry was.
func (f facts) filling() Type {
	write := f&factWrite != 0
	switch f.place() {
	case inPrivateFile:
		if write {
			return CopyOnWrite
		}
		return Read
	case inShared:
		if write {
			return Shared
		}
		return Read
	}
	return Anonymous
}
