package profile

import (
	"iter"
	"slices"
	"sort"
	"time"

	"tare/kernel/perfevent"
	"tare/probe"
)

// mapping is a stretch of a process' memory that holds a file's code.
type mapping struct {
	start, end, offset uint64
	file               string
	buildID            string
}

// task is a process as the replay has it at one moment. process and maps are
// shared with samples and forks: they are replaced, never changed.
type task struct {
	process *probe.Process
	maps    []mapping // a later one lies over an earlier one
	asked   bool      // what is known from elsewhere has been added
	names   map[uint64]string
}

// place is where a record lies in what was read.
type place struct {
	at     time.Duration
	chunk  int
	offset int
}

// replay goes through the records in order of time, and holds for each process
// what it was.
type replay struct {
	options Options
	tasks   map[int]*task
	cgroups map[uint64]string
	files   *files
	kernel  func(address uint64) string
	stacks  map[string]*chain
	// programs are what each exec executed. The kernel reports the new name when
	// the old program is gone, and the new one's file with its first mapping: in
	// between lies much of an exec, which is the new program's.
	programs map[execution]string
	result   *Recording
}

// execution is one exec.
type execution struct {
	pid int
	at  time.Duration
}

// survey goes through the records once beforehand: where files are to be found,
// and what was executed.
func (p *replay) survey(all iter.Seq[perfevent.Record]) {
	pending := map[int]*perfevent.Comm{} // execs whose program is not mapped yet
	first := map[execution]mapping{}
	for r := range all {
		switch r := r.(type) {
		case *perfevent.Mapping:
			p.files.seen(key(r.BuildID), r.File)
			if exec := pending[r.PID]; exec != nil {
				first[execution{r.PID, exec.Time}] = mapping{file: r.File, buildID: key(r.BuildID)}
				delete(pending, r.PID)
			}
		case *perfevent.Comm:
			if r.Exec {
				pending[r.PID] = r
			}
		case *perfevent.Task:
			delete(pending, r.PID) // one that failed, or another process
		}
	}
	p.programs = map[execution]string{}
	for exec, m := range first {
		p.programs[exec] = p.files.program(&m)
	}
}

// order finds the records and sorts them by time: each CPU wrote its own.
func order(format perfevent.Format, raw [][]byte) (places []place, malformed int) {
	for chunk, b := range raw {
		for offset := 0; offset < len(b); {
			r, size, err := format.Decode(b[offset:])
			if err != nil {
				malformed++
			}
			if size == 0 {
				break
			}
			if r != nil {
				places = append(places, place{perfevent.When(r), chunk, offset})
			}
			offset += size
		}
	}
	sort.SliceStable(places, func(i, j int) bool { return places[i].at < places[j].at })
	return places, malformed
}

func (p *replay) record(r perfevent.Record) {
	switch r := r.(type) {
	case *perfevent.Sample:
		p.sample(r)
	case *perfevent.Mapping:
		p.mapped(r)
	case *perfevent.Comm:
		p.named(r)
	case *perfevent.Task:
		if !r.Exit {
			p.forked(r)
		} else if r.PID == r.TID {
			// Its samples may yet come, from other threads; its number is given
			// to another process by a fork, which replaces it.
			return
		}
	case *perfevent.Lost:
		p.result.Lost += r.Count
	case *perfevent.Throttle:
		if !r.Ends {
			p.result.Throttled++
		}
	case *perfevent.Cgroup:
		p.cgroups[r.Cgroup] = r.Path
	}
}

// task gives the process of a number; one of which nothing was seen has only
// that.
func (p *replay) task(pid int) *task {
	t := p.tasks[pid]
	if t == nil {
		t = &task{process: &probe.Process{PID: pid}}
		p.tasks[pid] = t
	}
	return t
}

// forked: a new process is its parent's copy until it executes something; a new
// thread is no process.
func (p *replay) forked(r *perfevent.Task) {
	if r.PID == r.Parent {
		return
	}
	parent := p.task(r.Parent)
	about := *parent.process
	about.PID, about.Parent = r.PID, r.Parent
	parent.maps = slices.Clip(parent.maps)
	p.tasks[r.PID] = &task{process: &about, maps: parent.maps}
}

// named: an exec makes another program of the process, any other new name of
// its first thread only renames it.
func (p *replay) named(r *perfevent.Comm) {
	if !r.Exec && r.PID != r.TID {
		return
	}
	t := p.task(r.PID)
	about := *t.process
	about.Comm = r.Name
	if r.Exec {
		// What a runtime's process becomes is in the container that it made.
		about.Contained = about.Contained || probe.ComponentOf(*t.process, self) == probe.Runtime
		about.Exe, about.Args, about.KernelThread = p.programs[execution{r.PID, r.Time}], nil, false
		t.maps, t.names, t.asked = nil, nil, false
	}
	t.process = &about
}

func (p *replay) mapped(r *perfevent.Mapping) {
	t := p.task(r.PID)
	m := mapping{start: r.Address, end: r.Address + r.Length, offset: r.Offset, file: r.File, buildID: key(r.BuildID)}
	t.maps, t.names = append(t.maps, m), nil
}

// sample adds a sample, but of the idle task only its time.
func (p *replay) sample(r *perfevent.Sample) {
	if r.PID == 0 {
		p.result.Idle++
		p.result.idle = append(p.result.idle, r.Time)
		return
	}
	t := p.task(r.PID)
	if !t.asked {
		p.ask(t, r)
	}
	c := p.chain(t, r)
	p.result.Samples = append(p.result.Samples, Sample{
		Time: r.Time, CPU: r.CPU, PID: r.PID, TID: r.TID,
		Process: t.process, Kernel: c.kernel, User: c.user, Weight: r.Period,
	})
}

// ask adds what is known from elsewhere, once a program.
func (p *replay) ask(t *task, r *perfevent.Sample) {
	t.asked = true
	about := *t.process
	if path := p.cgroups[r.Cgroup]; r.Cgroup != 0 && path != "" && p.options.Contained(path) {
		about.Contained = true
	}
	if p.options.Processes != nil {
		if known, ok := p.options.Processes(r.PID, r.Time); ok {
			about = merge(about, known)
		}
	}
	t.process = &about
}

// merge adds to what the records have what is known from elsewhere. The records
// are right about the name: it may have changed since.
func merge(recorded, known probe.Process) probe.Process {
	if len(known.Args) > 0 {
		recorded.Args = known.Args
	}
	if recorded.Exe == "" {
		recorded.Exe = known.Exe
	}
	if recorded.Comm == "" {
		recorded.Comm = known.Comm
	}
	if recorded.Parent == 0 {
		recorded.Parent = known.Parent
	}
	recorded.Contained = recorded.Contained || known.Contained
	recorded.KernelThread = recorded.KernelThread || known.KernelThread
	return recorded
}

// chain is a call chain by names. Equal ones are one.
type chain struct{ kernel, user []string }

func (p *replay) chain(t *task, r *perfevent.Sample) *chain {
	var kernel, user []string
	for i, address := range r.Kernel {
		kernel = append(kernel, p.kernel(callAt(i, address)))
	}
	for i, address := range r.User {
		name, known := p.user(t, callAt(i, address))
		if !known && i > 0 {
			break // not code: where the frame pointer was used for something else
		}
		user = append(user, name)
	}
	same := make([]byte, 0, 1024)
	for _, name := range kernel {
		same = append(append(same, name...), 0)
	}
	same = append(same, 1)
	for _, name := range user {
		same = append(append(same, name...), 0)
	}
	c := p.stacks[string(same)]
	if c == nil {
		c = &chain{kernel, user}
		p.stacks[string(same)] = c
	}
	return c
}

// callAt: all addresses of a chain but the first are those after a call, which
// may be the next function's first.
func callAt(i int, address uint64) uint64 {
	if i > 0 && address > 0 {
		return address - 1
	}
	return address
}

// user names the function at an address of a process; false where nothing that
// can be executed is there.
func (p *replay) user(t *task, address uint64) (string, bool) {
	name, known := t.names[address]
	if !known {
		name = unmapped
		for i := len(t.maps) - 1; i >= 0; i-- {
			if m := &t.maps[i]; m.start <= address && address < m.end {
				name = p.files.function(t.process, m, address-m.start+m.offset)
				break
			}
		}
		if t.names == nil {
			t.names = map[uint64]string{}
		}
		t.names[address] = name
	}
	return name, name != unmapped
}

// unmapped is where a program was that nothing is known of, or of which too
// little: it was started before anything was recorded.
const unmapped = "[unmapped]"
