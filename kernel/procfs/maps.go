package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Mapping is one line of /proc/PID/maps: a range of a process' address space.
type Mapping struct {
	Start, End uint64 // virtual addresses, bytes; End is the first that is not of it
	Read       bool
	Write      bool
	Execute    bool
	Shared     bool   // writes are seen by whoever else maps it
	Offset     uint64 // bytes into the file of Start
	// Major and Minor are the device of the file's file system, and Inode the file's number there;
	// all are 0 where no file is mapped.
	Major, Minor uint32
	Inode        uint64
	// Path is the file's, as the process' mount namespace has it, or the kernel's name for
	// what is in no file: "[heap]", "[stack]", "[vdso]", "[anon:NAME]"; empty for
	// anonymous memory. "/dev/zero" is anonymous memory that is shared, where
	// Deleted, "/memfd:NAME" and "/SYSV00000000" are shared memory.
	Path string
	// Deleted means that the file is no longer at Path. [ParseMaps] can only go by the text;
	// [Process.Settle] asks the kernel.
	Deleted bool
}

const deleted = " (deleted)"

// Name is the path as the kernel reports it, with the mark of a file that was deleted.
func (m *Mapping) Name() string {
	if m.Deleted {
		return m.Path + deleted
	}
	return m.Path
}

// DeviceNumber is the device as stat has it (st_dev).
func (m *Mapping) DeviceNumber() uint64 {
	major, minor := uint64(m.Major), uint64(m.Minor)
	return major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
}

// Maps reads /proc/PID/maps: the process' address space, ascending. Nothing is
// mapped in a kernel thread, nor in a process that has ended.
func (p Process) Maps() ([]Mapping, error) {
	b, err := p.readOfMemory("maps", mostText)
	if err != nil {
		return nil, err
	}
	maps, err := parsed(p, "maps", b, ParseMaps)
	if err == nil {
		p.Settle(maps)
	}
	return maps, err
}

// MapsText reads /proc/PID/maps as it stands, for [ParseMaps]; two readings that
// are equal show that nothing was mapped or unmapped.
func (p Process) MapsText() ([]byte, error) { return p.readOfMemory("maps", mostText) }

// ParseMaps parses /proc/PID/maps. Two texts have two readings. A path that ends in
// " (deleted)" is taken for a deleted file's, and "\012" in a path for a newline:
// [Process.Settle] finds out where it matters.
func ParseMaps(r io.Reader) ([]Mapping, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var maps []Mapping
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		m, err := parseMapping(line)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if n := len(maps); n > 0 && m.Start < maps[n-1].End {
			// One that grew between the two calls that a reading takes is reported again, as it
			// is then: a heap, while a program starts.
			if last := &maps[n-1]; m.Start == last.Start && m.End > last.End {
				*last = m
				continue
			}
			return nil, fmt.Errorf("%q: begins below the end of the mapping before", line)
		}
		maps = append(maps, m)
	}
	return maps, nil
}

func parseMapping(line []byte) (Mapping, error) {
	// Five fields, then blanks up to a column, then the path, which may hold any byte.
	var fields [5][]byte
	rest := line
	for i := range fields {
		rest = bytes.TrimLeft(rest, " ")
		fields[i], rest, _ = bytes.Cut(rest, []byte(" "))
		if len(fields[i]) == 0 {
			return Mapping{}, errors.New("too few fields")
		}
	}
	m := Mapping{Path: string(bytes.TrimLeft(rest, " "))}
	from, to, _ := strings.Cut(string(fields[0]), "-")
	major, minor, _ := strings.Cut(string(fields[3]), ":")
	var err error
	number := func(what, digits string, base, bits int) uint64 {
		v, bad := strconv.ParseUint(digits, base, bits)
		if bad != nil && err == nil {
			err = fmt.Errorf("%s: %w", what, bad)
		}
		return v
	}
	m.Start, m.End = number("start", from, 16, 64), number("end", to, 16, 64)
	m.Offset = number("offset", string(fields[2]), 16, 64)
	m.Major, m.Minor = uint32(number("major", major, 16, 32)), uint32(number("minor", minor, 16, 32))
	m.Inode = number("inode", string(fields[4]), 10, 64)
	if err != nil {
		return Mapping{}, err
	}
	if m.End <= m.Start {
		return Mapping{}, errors.New("it ends before it begins")
	}
	p := fields[1]
	if len(p) != 4 {
		return Mapping{}, fmt.Errorf("permissions %q", p)
	}
	m.Read, m.Write, m.Execute, m.Shared = p[0] == 'r', p[1] == 'w', p[2] == 'x', p[3] == 's'
	// Only the newline is escaped, and not the backslash (seq_path, show_map_vma).
	m.Path = strings.ReplaceAll(m.Path, `\012`, "\n")
	if strings.HasPrefix(m.Path, "/") {
		m.Path, m.Deleted = strings.CutSuffix(m.Path, deleted)
	}
	return m, nil
}
