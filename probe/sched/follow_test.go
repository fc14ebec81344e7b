package sched

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/probe"
)

// story is events of processes, one after the other.
type story struct {
	processes *Processes
	follower  *follower
	now       time.Duration
}

func newStory() *story {
	p := newProcesses()
	return &story{processes: p, follower: newFollower(p), now: 100}
}

func (s *story) add(e Event) time.Duration {
	s.now++
	e.Time = s.now
	s.processes.observe(e)
	s.follower.observe(e)
	return s.now
}

func (s *story) fork(parent, child int) time.Duration {
	return s.add(Event{Kind: Fork, Thread: Thread{PID: parent, TID: parent}, Other: Thread{PID: child, TID: child}})
}

func (s *story) exec(pid int, path string, args ...string) time.Duration {
	return s.add(Event{Kind: Exec, Thread: Thread{PID: pid, TID: pid}, FormerTID: pid, Path: path, Args: args})
}

func (s *story) exit(pid int) {
	s.add(Event{Kind: Exit, Thread: Thread{PID: pid, TID: pid}, LastThread: true})
}

const (
	containerd = 1
	shim       = 2
	create     = 3
	stage      = 4
	initPID    = 5
	hook       = 6
	release    = 7
)

// dockerStart plays a start of container c as containerd 1.6 and runc 1.1
// make it, and gives the marks that it should have.
func (s *story) dockerStart(program ...string) Marks {
	var m Marks
	s.fork(containerd, shim)
	m.Shim = s.exec(shim, "/usr/bin/containerd-shim-runc-v2", "/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-id", "c", "start")
	s.fork(shim, create)
	m.Runtime = s.exec(create, "/usr/sbin/runc", "runc", "--log", "/run/c/log.json", "create", "--bundle", "/run/c", "c")
	s.fork(create, stage)
	s.exec(stage, "/proc/self/exe", "runc", "init")
	m.Init = s.fork(stage, initPID)
	s.exit(stage)
	s.fork(create, hook)
	s.exec(hook, "/proc/77/exe", "libnetwork-setkey", "-exec-root=/run/docker", "c", "0123")
	s.exit(hook)
	s.exit(create)
	s.fork(shim, release)
	m.Release = s.exec(release, "/usr/sbin/runc", "runc", "start", "c")
	m.Application = s.exec(initPID, "/bin/redis-server", program...)
	m.PID = initPID
	s.exit(release)
	return m
}

var program = []string{"redis-server", "--port", "6379"}

func TestDockerStartIsFollowed(t *testing.T) {
	s := newStory()
	f := s.follower.follow("c", program)
	want := s.dockerStart(program...)
	got, err := f.Application(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		pid  int
		at   time.Duration
		want probe.Component
	}{
		{shim, want.Shim, probe.Shim},
		{create, want.Runtime, probe.Runtime},
		{initPID, want.Init, probe.Runtime},
		{initPID, want.Application, probe.Application},
		{hook, s.now, probe.Engine},
	} {
		process, ok := s.processes.At(c.pid, c.at)
		if got := probe.ComponentOf(process, 0); !ok || got != c.want {
			t.Errorf("at %v process %d is %+v, of %q, want %q", c.at, c.pid, process, got, c.want)
		}
	}
}

// What looks like the program and is none of this start's is passed over.
func TestOthersAreNotFollowed(t *testing.T) {
	for what, act := range map[string]func(*story){
		"another container's":        func(s *story) { s.dockerStart("redis-server", "--port", "1") },
		"the same program elsewhere": func(s *story) { s.fork(1, 50); s.exec(50, "/bin/redis-server", program...) },
		"a client that names it":     func(s *story) { s.fork(1, 50); s.exec(50, "/bin/docker", "docker", "start", "c") },
		"an id that was used again": func(s *story) {
			s.fork(1, 50)
			s.exec(50, "/usr/sbin/runc", "runc", "state", "c")
			s.fork(50, 51)
			s.exit(50)
			s.exit(51)
			s.fork(1, 51)
			s.exec(51, "/bin/redis-server", program...)
		},
		"fewer arguments": func(s *story) { s.dockerStart(program[:2]...) },
		"a thread": func(s *story) {
			s.add(Event{Kind: Fork, Thread: Thread{PID: 1, TID: 1}, Other: Thread{PID: 1, TID: 9}})
			s.fork(9, 50)
			s.exec(50, "/bin/redis-server", program...)
		},
	} {
		s := newStory()
		f := s.follower.follow("c", program)
		act(s)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if m, err := f.Application(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s was taken for the program: %+v, %v", what, m, err)
		}
	}
}

// crun's init executes nothing before the program.
func TestInitWithoutExec(t *testing.T) {
	s := newStory()
	f := s.follower.follow("c", program)
	s.fork(1, create)
	runtime := s.exec(create, "/usr/bin/crun", "crun", "create", "c")
	born := s.fork(create, initPID)
	s.exit(create)
	s.fork(1, release)
	released := s.exec(release, "/usr/bin/crun", "crun", "start", "c")
	executed := s.exec(initPID, "/bin/redis-server", program...)
	got, err := f.Application(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := Marks{Runtime: runtime, Init: born, Release: released, Application: executed, PID: initPID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

func TestProgramBelowAnInit(t *testing.T) {
	s := newStory()
	f := s.follower.follow("c", program)
	s.dockerStart(slices.Concat([]string{"/sbin/docker-init", "--"}, program)...)
	born := s.fork(initPID, 50)
	executed := s.exec(50, "/bin/redis-server", program...)
	got, err := f.Application(context.Background())
	if err != nil || got.PID != 50 || got.Init != born || got.Application != executed {
		t.Errorf("marks %+v, %v", got, err)
	}
}

func TestStartsSideBySide(t *testing.T) {
	s := newStory()
	a, b := s.follower.follow("a", program), s.follower.follow("b", program)
	s.fork(1, 10)
	s.exec(10, "/usr/sbin/runc", "runc", "run", "-d", "a")
	s.fork(1, 20)
	s.exec(20, "/usr/sbin/runc", "runc", "run", "-d", "b")
	s.fork(20, 21)
	s.fork(10, 11)
	s.exec(21, "/bin/redis-server", program...)
	s.exec(11, "/bin/redis-server", program...)
	for f, pid := range map[*Following]int{a: 11, b: 21} {
		if m, err := f.Application(context.Background()); err != nil || m.PID != pid || m.Release != 0 {
			t.Errorf("marks %+v, %v, want process %d", m, err, pid)
		}
	}
}

func TestCutArguments(t *testing.T) {
	s := newStory()
	long := []string{"redis-server", "--comment", "a very long one"}
	f := s.follower.follow("c", long)
	s.fork(1, create)
	s.add(Event{Kind: Exec, Thread: Thread{PID: create, TID: create}, Path: "/usr/sbin/runc", Args: []string{"runc", "--log", "/run/c/log.json", "create", "--bun"}, ArgsCut: true})
	s.fork(create, initPID)
	s.add(Event{Kind: Exec, Thread: Thread{PID: initPID, TID: initPID}, Path: "/bin/redis-server", Args: []string{"redis-server", "--comment", "a very"}, ArgsCut: true})
	if m, err := f.Application(context.Background()); err != nil || m.Runtime == 0 {
		t.Errorf("marks %+v, %v", m, err)
	}
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		path string
		seen []string
		args []string
		want bool
	}{
		{"/entry.sh", []string{"/bin/sh", "/entry.sh", "a"}, []string{"/entry.sh", "a"}, true},
		{"/entry.sh", []string{"/bin/sh", "-e", "/entry.sh", "a"}, []string{"entry.sh", "a"}, true},
		{"/entry.sh", []string{"/bin/sh", "/entry.sh"}, []string{"/entry.sh", "a"}, false},
		{"/entry.sh", []string{"/bin/sh", "/other.sh", "a"}, []string{"/entry.sh", "a"}, false},
		{"/other.sh", []string{"/bin/sh", "/other.sh", "a"}, []string{"/entry.sh", "a"}, false},
		{"/bin/sh", []string{"sh"}, nil, false},
	} {
		if got := runs(Event{Path: c.path, Args: c.seen}, c.args); got != c.want {
			t.Errorf("%q by %q is %q: %t, want %t", c.seen, c.path, c.args, got, c.want)
		}
	}
}

func TestByPID(t *testing.T) {
	t.Run("asked for before", func(t *testing.T) {
		s := newStory()
		f := s.follower.followPID(50, s.now, program)
		born := s.fork(1, 50)
		s.exec(50, "/bin/tare", "tare-enter")
		executed := s.exec(50, "/bin/redis-server", program...)
		m, err := f.Application(context.Background())
		if err != nil || m.Init != born || m.Application != executed || m.PID != 50 {
			t.Errorf("marks %+v, %v", m, err)
		}
	})
	t.Run("asked for between", func(t *testing.T) {
		s := newStory()
		since := s.now
		born := s.fork(1, 50)
		f := s.follower.followPID(50, since, program)
		executed := s.exec(50, "/bin/redis-server", program...)
		m, err := f.Application(context.Background())
		if err != nil || m.Init != born || m.Application != executed {
			t.Errorf("marks %+v, %v", m, err)
		}
	})
	t.Run("asked for after, of an id that had run the same", func(t *testing.T) {
		s := newStory()
		s.fork(1, 50)
		s.exec(50, "/bin/redis-server", program...)
		s.exit(50)
		since := s.now
		early := s.follower.followPID(50, since, program)
		born := s.fork(1, 50)
		executed := s.exec(50, "/bin/redis-server", program...)
		late := s.follower.followPID(50, since, program)
		s.exit(50)
		for _, f := range []*Following{early, late} {
			m, err := f.Application(context.Background())
			if err != nil || m.Init != born || m.Application != executed {
				t.Errorf("marks %+v, %v, want a fork at %v and an exec at %v", m, err, born, executed)
			}
		}
	})
}

func TestClosedFollowingIsForgotten(t *testing.T) {
	s := newStory()
	f := s.follower.follow("c", program)
	f.Close()
	s.dockerStart(program...)
	if f.over() || f.Marks() != (Marks{}) {
		t.Errorf("followed on to %+v", f.Marks())
	}
}

// What is contained is known of all that a program did, whether it was known for
// the program at once or only when it was looked for later.
func TestContained(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newStory()
		since := s.now
		if !late {
			s.follower.followPID(50, since, program)
		}
		born := s.fork(1, 50)
		executed := s.exec(50, "/bin/redis-server", program...)
		s.fork(50, 51)
		again := s.exec(51, "/bin/sh", "sh")
		s.fork(51, 52)
		s.exit(50)
		next := s.fork(1, 50)
		s.fork(50, 53)
		if late {
			// Of a recording, all is known by then.
			s.processes.contain(50, executed)
		}
		for _, c := range []struct {
			pid  int
			at   time.Duration
			want bool
		}{{50, born, false}, {50, executed, true}, {50, next - 1, true}, {51, again, true}, {52, s.now, true}, {50, next, false}, {53, s.now, false}} {
			if p, ok := s.processes.At(c.pid, c.at); !ok || p.Contained != c.want {
				t.Errorf("late: %t: at %v process %d is %+v, contained is wanted %t", late, c.at, c.pid, p, c.want)
			}
		}
	}
}

func TestForget(t *testing.T) {
	s := newStory()
	s.fork(1, 10)
	s.exec(10, "/bin/a", "a")
	s.exit(10)
	s.fork(1, 11)
	s.exec(11, "/bin/b", "b")
	executed := s.exec(11, "/bin/c", "c")
	s.processes.Forget(s.now)
	if p, ok := s.processes.At(10, s.now); ok {
		t.Errorf("an ended process is still %+v", p)
	}
	if p, ok := s.processes.At(11, executed); !ok || p.Exe != "/bin/c" {
		t.Errorf("a living one is %+v", p)
	}
	if p, ok := s.processes.At(11, executed-1); ok {
		t.Errorf("what it was is still %+v", p)
	}
}

func TestExecutable(t *testing.T) {
	for _, c := range []struct{ path, name, want string }{
		{"/usr/sbin/runc", "runc", "/usr/sbin/runc"},
		{"/proc/self/exe", "dockerd", "/dockerd"},
		{"/dev/fd/7", "memfd:runc_cloned:/proc/self/exe", "/memfd:runc_cloned:/proc/self/exe"},
		{"/proc/self/exe", "", "/proc/self/exe"},
		{"./a/../b", "b", "b"},
	} {
		if got := executable(Event{Path: c.path, Name: c.name}); got != c.want {
			t.Errorf("%q of %q is %q, want %q", c.path, c.name, got, c.want)
		}
	}
}
