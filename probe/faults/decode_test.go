package faults

import (
	"strings"
	"testing"
)

// A ring's bytes, whatever they are, are read without end or harm, and a
// mapping is never one that follows.
func FuzzStream(f *testing.F) {
	seed := recordingOf(2,
		Fault{Address: 0x1000, IP: 0x400000, Mapping: Mapping{Start: 0x1000, End: 0x3000, Inode: 4}, Code: Mapping{Start: 0x400000, End: 0x401000, Inode: 5}},
		Fault{Target: 1, Address: 0x2000, Write: true},
	).streams[0]
	var bytes []byte
	for i := range seed.n {
		bytes = append(bytes, seed.record(i)...)
	}
	f.Add(bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &stream{}
		for ; len(b) >= recordSize; b = b[recordSize:] {
			copy(s.room(1), b)
			s.n++
		}
		r := &Recording{streams: []*stream{s}, of: []int32{0, 1}, Targets: make([]Target, 2), To: 1}
		r.settle(nil)
		n := 0
		for f := range r.All() {
			n++
			if f.Target < -1 || f.Target > 1 || f.Type >= Types {
				t.Fatalf("%+v", f)
			}
		}
		if n > s.n {
			t.Fatalf("%d faults in %d records", n, s.n)
		}
		r.Duplicates(nil)
	})
}

func FuzzEvent(f *testing.F) {
	f.Add(make([]byte, eventSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEvent(b); err == nil && (len(b) < eventSize || e.kind != eventExec && e.kind != eventExit) {
			t.Fatalf("%d bytes are %+v", len(b), e)
		}
		decodePath(b)
	})
}

func TestPath(t *testing.T) {
	var b [nameParts * partSize]byte
	for i, part := range []string{"libc.so.6", "lib", "usr", "/"} {
		copy(b[i*partSize:], part)
	}
	if got := decodePath(b[:]); got != "/usr/lib/libc.so.6" {
		t.Errorf("path %q", got)
	}
}

func TestDevice(t *testing.T) {
	// What stat gives of major 254, minor 5, and of a minor above 255.
	for kernel, want := range map[uint32]uint64{254<<20 | 5: 0xfe05, 259<<20 | 300: 0x11032c} {
		if got := statDevice(kernel); got != want {
			t.Errorf("device %#x is %#x, want %#x", kernel, got, want)
		}
	}
}

func TestThreadFaults(t *testing.T) {
	got, err := parseThreadFaults([]byte("7 (a) b) c) S 1 7 7 0 -1 4194560 101 2 33 4 0 0 0 0 20 0 1 0 5 6 7\n"))
	if err != nil || got != (threadFaults{minor: 101, major: 33}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 x 2 33 4 0"} {
		if _, err := parseThreadFaults([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestPhysicalBits(t *testing.T) {
	got, err := parsePhysicalBits(strings.NewReader("processor\t: 0\naddress sizes\t: 46 bits physical, 48 bits virtual\n"))
	if err != nil || got != 46 {
		t.Errorf("%d, %v", got, err)
	}
	for _, bad := range []string{"", "address sizes\t: many bits", "address sizes\t: 99 bits physical"} {
		if _, err := parsePhysicalBits(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
