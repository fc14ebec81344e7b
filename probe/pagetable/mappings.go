package pagetable

import (
	"bytes"
	"os"
	"strings"

	"tare/kernel/procfs"
)

// identity distinguishes a file from others.
type identity struct{ device, inode uint64 }

// executable is a process' own executable.
type executable struct {
	path string
	identity
}

// programOf gives a process' executable; the zero value where it cannot be read.
func programOf(p procfs.Process) executable {
	var own executable
	own.path, _ = os.Readlink(p.Path("exe"))
	if device, inode, err := p.Executable(); err == nil {
		own.identity = identity{device, inode}
	}
	return own
}

// is reports whether a mapping is of the executable. A file system of layers may report
// a mapping's device and inode otherwise than stat does: so the same path is
// enough.
func (p executable) is(m *procfs.Mapping) bool {
	return p.inode != 0 && p.identity == identityOf(m) || p.path != "" && p.path == m.Name()
}

func identityOf(m *procfs.Mapping) identity { return identity{m.DeviceNumber(), m.Inode} }

// fileOf is the path of what is mapped; empty for what is in no file.
func fileOf(m *procfs.Mapping) string {
	if strings.HasPrefix(m.Path, "[") {
		return ""
	}
	return m.Path
}

// atlas keeps what the processes of one census map. What is the same is kept
// once: children that were only forked map what their parent does, and
// containers of one image files of the same names.
type atlas struct {
	texts map[layoutText][]Mapping
	names map[string]string
}

// layoutText is what mappings are distinguished from.
type layoutText struct {
	text string // of /proc/PID/maps
	own  executable
}

func newAtlas() *atlas {
	return &atlas{texts: map[layoutText][]Mapping{}, names: map[string]string{}}
}

// mappings describes what a process maps, from the text that lists it.
func (a *atlas) mappings(p procfs.Process, text []byte, own executable) ([]Mapping, error) {
	key := layoutText{string(text), own}
	if all, known := a.texts[key]; known {
		return all, nil
	}
	maps, err := procfs.ParseMaps(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	p.Settle(maps)
	all := mappingsOf(maps, own)
	for i := range all {
		name, known := a.names[all[i].File]
		if !known {
			name = all[i].File
			a.names[name] = name
		}
		all[i].File = name
	}
	a.texts[key] = all
	return all, nil
}

// mappingsOf describes what a process maps.
func mappingsOf(maps []procfs.Mapping, own executable) []Mapping {
	executed := map[identity]bool{}
	for i := range maps {
		if m := &maps[i]; m.Execute && m.Inode != 0 {
			executed[identityOf(m)] = true
		}
	}
	all := make([]Mapping, len(maps))
	for i := range maps {
		m := &maps[i]
		id := identityOf(m)
		all[i] = Mapping{
			Start:   m.Start,
			End:     m.End,
			Write:   m.Write,
			Execute: m.Execute,
			Shared:  m.Shared,
			Kind:    kindOf(m, own, executed[id]),
			File:    fileOf(m),
			Deleted: m.Deleted,
			Device:  id.device,
			Inode:   id.inode,
			Offset:  m.Offset,
		}
		if k := all[i].Kind; k == Anonymous {
			// What /dev/zero or the reserve of huge pages gives privately is memory like any other.
			all[i].File, all[i].Deleted, all[i].Device, all[i].Inode, all[i].Offset = "", false, 0, 0, 0
		}
	}
	return all
}

// kindOf gives what a mapping holds; executed, whether its file is mapped
// executable anywhere in the process.
func kindOf(m *procfs.Mapping, own executable, executed bool) Kind {
	switch {
	case m.Path == "":
		return Anonymous
	case strings.HasPrefix(m.Path, "["):
		return unfiled(m.Path)
	case own.is(m):
		return Code
	case m.Path == "/dev/zero":
		// Mapped privately it is anonymous memory; shared, shared memory
		// that the kernel names so.
		return pick(m.Shared, SharedMemory, Anonymous)
	case m.Path == "/anon_hugepage" && m.Deleted:
		return pick(m.Shared, SharedMemory, Anonymous)
	case shared(m):
		return SharedMemory
	case !strings.HasPrefix(m.Path, "/"), // "anon_inode:[io_uring]", "socket:[4711]"
		strings.HasPrefix(m.Path, "//"),       // the kernel's, or perf's "//anon"
		strings.HasPrefix(m.Path, "/[aio]"),   // a ring of the kernel's
		strings.HasPrefix(m.Path, "/dmabuf:"), // a device's buffer
		strings.HasPrefix(m.Path, "/dev/"):
		return Device
	case executed:
		return Library
	}
	return FileData
}

// unfiled gives what lies behind the kernel's own names.
func unfiled(name string) Kind {
	switch {
	case name == "[heap]":
		return Heap
	case name == "[stack]":
		return Stack
	case strings.HasPrefix(name, "[anon:"):
		return Anonymous
	case strings.HasPrefix(name, "[anon_shmem:"):
		return SharedMemory
	}
	// [vdso], [vvar], [vvar_vclock], [vsyscall], [uprobes]: the kernel put it there.
	return VDSO
}

// shared recognises shared memory that is in no file, or in one only by name. It is
// what it is even where code is written to it and executed from it. The kernel's own files
// have no place in any directory.
func shared(m *procfs.Mapping) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(m.Path, prefix) }
	return m.Deleted && (begins("/memfd:") || begins("/SYSV")) || begins("/dev/shm/") || begins("/dev/hugepages/")
}

func pick(first bool, a, b Kind) Kind {
	if first {
		return a
	}
	return b
}

// behind is what frames a mapping has, as far as the mapping itself shows.
type behind uint8

const (
	ownFrames   behind = iota // anonymous
	fileFrames                // a file's, or shared memory's
	mixedFrames               // a file's, but for those written to: copies of its own
)

func behindOf(m *Mapping) behind {
	switch {
	case m.Kind == Anonymous, m.Kind == Heap, m.Kind == Stack:
		return ownFrames
	case m.Shared, m.Kind == VDSO:
		return fileFrames
	}
	return mixedFrames
}
