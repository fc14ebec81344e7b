package causes

import (
	"bytes"
	"os"
	"path"
	"sync"
	"time"

	"tare/kernel/mount"
	"tare/kernel/procfs"
	"tare/probe/bursts"
	"tare/probe/sched"
	"tare/probe/symbol"
)

const (
	// lookEvery is how often it is looked which programs were met: one that ends before
	// leaves its frames without names.
	lookEvery = 100 * time.Millisecond
	// mostFiles bounds how many of their files are held open.
	mostFiles = 256

	unknownFrame = "[unknown]"
	unnamedFrame = "[kernel]"
)

// names knows what the programs that were met have mapped, and holds the files, since
// a process and its mounts may be gone when their addresses are to be named.
type names struct {
	recording *bursts.Recording
	end       chan struct{}
	ended     sync.WaitGroup

	programs map[bursts.Program]*addressSpace
	latest   map[int]bursts.Program // of each process, the program met last
	files    map[fileID]*mappedFile
}

type addressSpace struct {
	text     []byte // as it was last read
	mappings []procfs.Mapping
}

// fileID is a file's on the host, for as long as somebody has it mapped.
type fileID struct{ device, inode uint64 }

type mappedFile struct {
	open    *os.File
	read    bool
	symbols *symbol.File // nil where it has none
}

func startNames(r *bursts.Recording) *names {
	n := &names{
		recording: r, end: make(chan struct{}),
		programs: map[bursts.Program]*addressSpace{}, latest: map[int]bursts.Program{}, files: map[fileID]*mappedFile{},
	}
	n.ended.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-n.end:
				n.look()
				return
			case <-tick.C:
				n.look()
			}
		}
	})
	return n
}

// stop looks for a last time.
func (n *names) stop() {
	close(n.end)
	n.ended.Wait()
}

func (n *names) close() {
	for _, f := range n.files {
		if f.open != nil {
			_ = f.open.Close() // only read from
		}
	}
}

// look takes down what the programs have mapped now. What cannot be read is of a
// process that ended: it stays as it was.
func (n *names) look() {
	programs, err := n.recording.Programs()
	if err != nil {
		return // the recording's own Stop reports it
	}
	for _, p := range programs {
		if n.programs[p] == nil {
			n.programs[p] = &addressSpace{}
			n.latest[p.PID] = p
		}
	}
	for _, p := range n.latest {
		n.programs[p].update(p.PID, n.hold)
	}
}

func (a *addressSpace) update(pid int, hold func(pid int, m *procfs.Mapping)) {
	if procfs.Host.Process(pid).Locked() {
		return
	}
	text, err := procfs.Host.Process(pid).MapsText()
	if err != nil || len(text) == 0 || bytes.Equal(text, a.text) {
		return
	}
	mappings, err := procfs.ParseMaps(bytes.NewReader(text))
	if err != nil {
		return
	}
	// It may have executed another program since, whose first absence has not ended
	// yet: that lies elsewhere.
	if len(a.mappings) > 0 && a.mappings[0].Start != mappings[0].Start {
		return
	}
	procfs.Host.Process(pid).Settle(mappings)
	a.text, a.mappings = text, a.mappings[:0]
	for i := range mappings {
		if m := &mappings[i]; m.Execute || len(a.mappings) == 0 {
			a.mappings = append(a.mappings, *m)
			if m.Execute && m.Inode != 0 {
				hold(pid, m)
			}
		}
	}
}

// hold opens a file through the process' own root, which containers have for
// themselves. A file system there may be one that never answers.
func (n *names) hold(pid int, m *procfs.Mapping) {
	id := fileID{m.DeviceNumber(), m.Inode}
	if n.files[id] != nil || len(n.files) >= mostFiles || m.Deleted {
		return
	}
	f := &mappedFile{}
	n.files[id] = f
	process := procfs.Host.Process(pid)
	pinned, err := mount.Pin(process, process.Path("root"), m.Path)
	if err != nil {
		return // a file without names
	}
	defer pinned.Close()
	f.open, _ = pinned.Open()
}

// stacks names the absences.
func (n *names) stacks(absences []bursts.Absence, kernel func(uint64) string) []Stack {
	var all []Stack
	for _, a := range absences {
		s := Stack{Program: a.Comm, Waiting: a.Waiting, Time: a.Time, Count: a.Count}
		for _, name := range sched.Frames(a.Kernel, kernel) {
			if name == "" {
				name = unnamedFrame
			}
			s.Frames = append(s.Frames, name)
		}
		s.Frames = append(s.Frames, n.user(n.programs[bursts.Program{PID: a.PID, Memory: a.Memory}], a.User)...)
		if len(s.Frames) == 0 {
			s.Frames = []string{unknownFrame}
		}
		all = append(all, s)
	}
	return merged(all)
}

// user names a program's frames, up to the first that is in no code: there the chain
// of frame pointers had ended.
func (n *names) user(space *addressSpace, stack []uint64) []string {
	var frames []string
	for i, address := range stack {
		if i > 0 {
			address-- // within the call, where the return address may be the next function's
		}
		if space == nil {
			return []string{unknownFrame}
		}
		m := space.at(address)
		if m == nil {
			break
		}
		frames = append(frames, n.function(m, address))
	}
	return frames
}

func (a *addressSpace) at(address uint64) *procfs.Mapping {
	for i := range a.mappings {
		if m := &a.mappings[i]; m.Execute && m.Start <= address && address < m.End {
			return m
		}
	}
	return nil
}

func (n *names) function(m *procfs.Mapping, address uint64) string {
	if f := n.files[fileID{m.DeviceNumber(), m.Inode}]; f != nil && m.Inode != 0 {
		if f.open != nil && !f.read {
			f.symbols, _ = symbol.Of(f.open)
			f.read = true
		}
		if f.symbols != nil {
			if name, ok := f.symbols.Function(address - m.Start + m.Offset); ok {
				return name
			}
		}
	}
	if m.Path == "" {
		return "[generated code]"
	}
	if m.Path[0] == '[' {
		return m.Path
	}
	return "[" + path.Base(m.Path) + "]"
}
