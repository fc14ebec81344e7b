package perfevent

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// full is the format of a kernel that knows everything asked for.
var full = Format{SampleType: sampleType | unix.PERF_SAMPLE_CGROUP}

// encode builds a record of numbers (each as wide as its type) and text (padded
// with zeros to eight, as the kernel does).
func encode(kind uint32, misc uint16, fields ...any) []byte {
	var b []byte
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = append(append(b, f...), 0)
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
		case []byte:
			b = append(b, f...)
		default:
			b, _ = binary.Append(b, binary.NativeEndian, f)
		}
	}
	head := binary.NativeEndian.AppendUint32(nil, kind)
	head = binary.NativeEndian.AppendUint16(head, misc)
	head = binary.NativeEndian.AppendUint16(head, uint16(headerSize+len(b)))
	return append(head, b...)
}

// trailing is the identity behind every record but samples.
var trailing = []any{uint32(7), uint32(8), uint64(900), uint32(1), uint32(0)}

func recorded(kind uint32, misc uint16, fields ...any) []byte {
	return encode(kind, misc, append(fields, trailing...)...)
}

var who = ID{PID: 7, TID: 8, Time: 900, CPU: 1}

var sampled = encode(unix.PERF_RECORD_SAMPLE, 1,
	uint64(0xffffffff81000010), uint32(7), uint32(8), uint64(900), uint32(1), uint32(0), uint64(1e6),
	uint64(6), uint64(contextKernel), uint64(0xffffffff81000010), uint64(0xffffffff81000020), uint64(contextUser), uint64(0x401000), uint64(0x402000),
	uint64(4711))

func TestDecode(t *testing.T) {
	buildID := []byte{20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	for _, c := range []struct {
		name string
		b    []byte
		want Record
	}{
		{"a sample", sampled, &Sample{ID: who, IP: 0xffffffff81000010, Period: time.Millisecond,
			Kernel: []uint64{0xffffffff81000010, 0xffffffff81000020}, User: []uint64{0x401000, 0x402000}, Cgroup: 4711}},
		{"a mapping by build id", recorded(unix.PERF_RECORD_MMAP2, miscMmapBuildID, uint32(9), uint32(9), uint64(0x400000), uint64(0x1000), uint64(0x2000), buildID, uint32(5), uint32(2), "/bin/sh"),
			&Mapping{ID: ID{PID: 9, TID: 9, Time: 900, CPU: 1}, Address: 0x400000, Length: 0x1000, Offset: 0x2000, BuildID: buildID[4:], File: "/bin/sh"}},
		{"a mapping by inode", recorded(unix.PERF_RECORD_MMAP2, 0, uint32(9), uint32(9), uint64(0x400000), uint64(0x1000), uint64(0), buildID, uint32(5), uint32(2), "/bin/sh"),
			&Mapping{ID: ID{PID: 9, TID: 9, Time: 900, CPU: 1}, Address: 0x400000, Length: 0x1000, File: "/bin/sh"}},
		{"a name by exec", recorded(unix.PERF_RECORD_COMM, miscCommExec, uint32(9), uint32(9), "exe"), &Comm{ID: ID{PID: 9, TID: 9, Time: 900, CPU: 1}, Name: "exe", Exec: true}},
		{"a name by prctl", recorded(unix.PERF_RECORD_COMM, 0, uint32(9), uint32(10), "runc:[2:INIT]"), &Comm{ID: ID{PID: 9, TID: 10, Time: 900, CPU: 1}, Name: "runc:[2:INIT]"}},
		{"a fork", recorded(unix.PERF_RECORD_FORK, 0, uint32(20), uint32(7), uint32(20), uint32(8), uint64(899)),
			&Task{ID: ID{PID: 20, TID: 20, Time: 899, CPU: 1}, Parent: 7, ParentTID: 8}},
		{"an exit", recorded(unix.PERF_RECORD_EXIT, 0, uint32(20), uint32(7), uint32(21), uint32(8), uint64(899)),
			&Task{ID: ID{PID: 20, TID: 21, Time: 899, CPU: 1}, Parent: 7, ParentTID: 8, Exit: true}},
		{"lost records", recorded(unix.PERF_RECORD_LOST, 0, uint64(5), uint64(12)), &Lost{ID: who, Count: 12}},
		{"lost samples", recorded(recordLostSamples, 0, uint64(12)), &Lost{ID: who, Count: 12}},
		{"throttled", recorded(unix.PERF_RECORD_THROTTLE, 0, uint64(890), uint64(1), uint64(1)), &Throttle{ID: ID{PID: 7, TID: 8, Time: 890, CPU: 1}}},
		{"throttled no more", recorded(unix.PERF_RECORD_UNTHROTTLE, 0, uint64(890), uint64(1), uint64(1)), &Throttle{ID: ID{PID: 7, TID: 8, Time: 890, CPU: 1}, Ends: true}},
		{"a cgroup", recorded(recordCgroup, 0, uint64(4711), "/docker/0123"), &Cgroup{ID: who, Cgroup: 4711, Path: "/docker/0123"}},
		{"outside of our pid namespace", recorded(unix.PERF_RECORD_COMM, 0, uint32(math.MaxUint32), uint32(math.MaxUint32), "x"), &Comm{ID: ID{PID: -1, TID: -1, Time: 900, CPU: 1}, Name: "x"}},
		{"of another kind", recorded(unix.PERF_RECORD_SWITCH, 0), nil},
	} {
		behind := append(slices.Clone(c.b), sampled...)
		got, size, err := full.Decode(behind)
		if err != nil || size != len(c.b) {
			t.Errorf("%s: %d bytes of %d, %v", c.name, size, len(c.b), err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.want != nil && When(got) != c.want.id().Time {
			t.Errorf("%s is of %v", c.name, When(got))
		}
	}
}

func TestDecodeRefusesWhatIsCutShort(t *testing.T) {
	for cut := 1; cut < len(sampled); cut++ {
		if _, size, err := full.Decode(sampled[:len(sampled)-cut]); err == nil || size != 0 {
			t.Errorf("%d bytes less: size %d, %v", cut, size, err)
		}
	}
	// The header's size says less than the fields need: the next record can be
	// found, this one is refused.
	short := slices.Clone(sampled)
	binary.NativeEndian.PutUint16(short[6:], uint16(len(short)-8))
	_, size, err := full.Decode(short)
	if malformed := new(Malformed); !errors.As(err, &malformed) || size != len(short)-8 || malformed.Type != unix.PERF_RECORD_SAMPLE {
		t.Errorf("a sample without its cgroup: size %d, %v", size, err)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0\n": {0}, "0-2,5\n": {0, 1, 2, 5}, "": nil, "3-1": nil, "a": nil, "0-": nil} {
		got, err := parseCPUs(list)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint64(full.SampleType), sampled)
	f.Add(uint64(sampleType), append(recorded(unix.PERF_RECORD_COMM, 0, uint32(9), uint32(10), "a"), sampled...))
	f.Add(uint64(0), recorded(recordCgroup, 0, uint64(1), "/"))
	f.Fuzz(func(t *testing.T, sampleType uint64, b []byte) {
		format := Format{SampleType: sampleType}
		for len(b) > 0 {
			r, size, err := format.Decode(b)
			if err != nil && r != nil {
				t.Fatalf("both a record and %v", err)
			}
			if size == 0 {
				if err == nil {
					t.Fatal("a record of no bytes")
				}
				return
			}
			b = b[size:]
		}
	})
}
