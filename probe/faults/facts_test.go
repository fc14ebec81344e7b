package faults

import "testing"

// The rule by which faults are typed, as S1's table 5.1 has it, and what is none of
// S1's.
func TestType(t *testing.T) {
	const (
		write   = factWrite
		fetch   = factFetch
		allowed = factAllowed
	)
	in := func(p place) facts { return facts(p) << 6 }
	of := func(s State) facts { return facts(s) }
	for _, c := range []struct {
		what  string
		facts facts
		want  Type
	}{
		{"no entry, anonymous, read", of(None) | in(inAnonymous) | allowed, Anonymous},
		{"no entry, anonymous, written", of(None) | in(inAnonymous) | allowed | write, Anonymous},
		{"below a stack", of(None) | in(inGrowingStack) | allowed | write, Anonymous},
		{"no entry, private file, read", of(None) | in(inPrivateFile) | allowed, Read},
		{"no entry, private file, executed", of(None) | in(inPrivateFile) | allowed | fetch, Read},
		{"no entry, private file, written", of(None) | in(inPrivateFile) | allowed | write, CopyOnWrite},
		{"no entry, shared, read", of(None) | in(inShared) | allowed, Read},
		{"no entry, shared, written", of(None) | in(inShared) | allowed | write, Shared},
		{"in swap, read", of(Swapped) | in(inAnonymous) | allowed, Swap},
		{"in swap, written", of(Swapped) | in(inAnonymous) | allowed | write, Swap},
		{"migrating, a file's", of(Moving) | in(inPrivateFile) | allowed, Swap},
		{"read-only, anonymous, written", of(ReadOnly) | in(inAnonymous) | allowed | write, WriteProtect},
		{"read-only, private file, written", of(ReadOnly) | in(inPrivateFile) | allowed | write, WriteProtect},
		{"read-only, shared, written", of(ReadOnly) | in(inShared) | allowed | write, WriteProtect},
		{"read-only, mapping without write, written", of(ReadOnly) | in(inAnonymous) | write, Refused},
		{"read-only, read", of(ReadOnly) | in(inAnonymous) | allowed, Spurious},
		{"writable, written", of(Writable) | in(inAnonymous) | allowed | write, Spurious},
		{"withdrawn by the kernel", of(Withdrawn) | in(inAnonymous) | allowed, Hint},
		{"withdrawn by mprotect", of(Withdrawn) | in(inAnonymous), Refused},
		{"a guard", of(Guarded) | in(inAnonymous) | allowed, Refused},
		{"no mapping", of(None) | in(nowhere), Refused},
		{"no mapping any more, an entry left", of(Writable) | in(nowhere), Refused},
		{"a mapping that changes", of(None) | in(inUnknown), Untyped},
		{"a number that the programs do not use", of(None) | facts(7)<<6 | allowed, Untyped},
	} {
		for _, kernel := range []facts{0, factKernel} {
			if got := (c.facts | kernel).typ(); got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
	}
}

// Whatever the programs count has a type, and a write that is served is never
// a read.
func TestEveryCountHasAType(t *testing.T) {
	for f := range facts(factCount) {
		switch typ := f.typ(); {
		case typ >= Types:
			t.Errorf("%#x is of type %d", f, typ)
		case typ == Read && f&factWrite != 0, (typ == CopyOnWrite || typ == Shared || typ == WriteProtect) && f&factWrite == 0:
			t.Errorf("%#x is %s", f, typ)
		case typ < Spurious && f&factAllowed == 0:
			t.Errorf("%#x is %s, and is not allowed", f, typ)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for typ := range Types {
		if name := typ.String(); name == "" || seen[name] {
			t.Errorf("type %d is called %q", typ, name)
		} else {
			seen[name] = true
		}
	}
	for p := range Parts {
		if p.String() == "" {
			t.Errorf("part %d has no name", p)
		}
	}
}

func TestFrame(t *testing.T) {
	for _, c := range []struct {
		what  string
		fault Fault
		frame uint64
		ok    bool
	}{
		{"a page", Fault{Address: 0x7f0000001234, Entry: 0x8000000123456865, State: ReadOnly}, 0x123456, true},
		{"within 2 MiB", Fault{Address: 0x7f0000003000, Entry: 0x80000001234000e5, State: ReadOnly, Level: 1}, 0x123403, true},
		{"within 2 MiB, whose entry has a flag where a frame's bit would be", Fault{Address: 0x7f0000003000, Entry: 0x80000001234010e5, State: ReadOnly, Level: 1}, 0x123403, true},
		{"none", Fault{Address: 0x1000}, 0, false},
		{"in swap", Fault{Entry: 0x1234560000, State: Swapped}, 0, false},
	} {
		if frame, ok := c.fault.Frame(); frame != c.frame || ok != c.ok {
			t.Errorf("%s: %#x, %t, want %#x, %t", c.what, frame, ok, c.frame, c.ok)
		}
	}
}
