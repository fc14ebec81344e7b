package process_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tare/kernel/process"
)

// allowed is what the kernel says of every thread of this program.
func allowed(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]string{}
	for _, e := range entries {
		status, err := os.ReadFile("/proc/self/task/" + e.Name() + "/status")
		if err != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		lists[e.Name()] = strings.TrimSpace(list)
	}
	return lists
}

// onThreads keeps n threads of their own alive, each of which f has prepared,
// until the returned function is called.
func onThreads(t *testing.T, n int, f func() error) (release func()) {
	t.Helper()
	var ready, ended sync.WaitGroup
	gate := make(chan struct{})
	for range n {
		ready.Add(1)
		ended.Go(func() {
			err := process.OnFreshThread(func() error {
				err := f()
				ready.Done()
				<-gate
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	release = sync.OnceFunc(func() { close(gate); ended.Wait() })
	t.Cleanup(release)
	return release
}

func nothing() error { return nil }

func twoCPUs(t *testing.T) []int {
	t.Helper()
	cpus, err := process.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 {
		t.Skip("needs two CPUs: there is nothing to be restricted to")
	}
	return cpus
}

func TestConfineHoldsEveryThread(t *testing.T) {
	cpus := twoCPUs(t)
	usual := allowedIn(t, selfStatus(t))
	onThreads(t, 8, nothing)

	// Threads are born while it goes on, each from any that there is.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := process.OnFreshThread(nothing); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	restore, err := process.Confine(cpus[1:2])
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	release := onThreads(t, 8, nothing) // born later
	want := strconv.Itoa(cpus[1])
	for thread, list := range allowed(t) {
		if list != want {
			t.Errorf("thread %s may run on %s, want %s alone", thread, list, want)
		}
	}
	// What is started runs there too.
	out, err := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status").Output()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "\t"+want) {
		t.Errorf("a child says %q, %v", out, err)
	}

	for range 2 {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		for thread, list := range allowed(t) {
			if list != usual {
				t.Errorf("afterwards thread %s may run on %s, want %s", thread, list, usual)
			}
		}
	}
	release()
}

// A thread that had CPUs of its own gets those back, one that had these very
// ones keeps them, and one that moved meanwhile stays where it went.
func TestConfineGivesBackWhatEachHad(t *testing.T) {
	cpus := twoCPUs(t)
	at := func(cpu int) (list func() string) {
		var status string
		onThreads(t, 1, func() error {
			status = selfStatus(t)
			return process.SetAffinity([]int{cpu})
		})
		return func() string { return allowedIn(t, status) }
	}
	first, second := at(cpus[0]), at(cpus[1])
	move := make(chan struct{})
	moved := make(chan string)
	go func() {
		err := process.OnFreshThread(func() error {
			status := selfStatus(t)
			moved <- status
			<-move
			err := process.SetAffinity(cpus[:1])
			moved <- status
			<-move
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}()
	wanderer := <-moved
	defer close(move)

	restore, err := process.Confine(cpus[1:2])
	if err != nil {
		t.Fatal(err)
	}
	if got := first(); got != strconv.Itoa(cpus[1]) {
		t.Errorf("confined, the first may run on %s", got)
	}
	move <- struct{}{}
	<-moved
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"had the other CPU":  {first(), strconv.Itoa(cpus[0])},
		"had this CPU alone": {second(), strconv.Itoa(cpus[1])},
		"moved meanwhile":    {allowedIn(t, wanderer), strconv.Itoa(cpus[0])},
	} {
		if c.got != c.want {
			t.Errorf("a thread that %s may run on %s, want %s", name, c.got, c.want)
		}
	}
}

func TestConfineRefuses(t *testing.T) {
	cpus, err := process.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	absent := 1023
	if slices.Contains(cpus, absent) {
		t.Skip("needs a CPU that this program has not got")
	}
	before := allowed(t)
	for name, c := range map[string]struct {
		cpus []int
		says string
	}{
		"none":          {nil, "name one"},
		"below all":     {[]int{-1}, "CPU -1"},
		"above all":     {[]int{1 << 20}, "CPU 1048576"},
		"one absent":    {[]int{absent}, "1023"},
		"partly absent": {[]int{cpus[0], absent}, "offline"},
	} {
		restore, err := process.Confine(c.cpus)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.says)
		}
		if restore != nil {
			t.Errorf("%s: something to restore", name)
		}
	}
	for thread, list := range allowed(t) {
		if was, known := before[thread]; known && was != list {
			t.Errorf("thread %s may run on %s, had %s", thread, list, was)
		}
	}
}

// selfStatus is the status file of the calling thread.
func selfStatus(t *testing.T) string {
	link, err := os.Readlink("/proc/thread-self")
	if err != nil {
		t.Error(err)
	}
	return "/proc/" + link + "/status"
}

func allowedIn(t *testing.T, status string) string {
	t.Helper()
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

// What a confined program may give to others is what it had.
func TestAffinityOfTheConfined(t *testing.T) {
	before, err := process.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if len(before) < 2 {
		t.Skip("with one CPU there is nothing to be confined to")
	}
	restore, err := process.Confine(before[:1])
	if err != nil {
		t.Fatal(err)
	}
	if now, err := process.Affinity(); err != nil || !slices.Equal(now, before) {
		t.Errorf("confined, it may give %v (%v), want %v", now, err, before)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if now, err := process.Affinity(); err != nil || !slices.Equal(now, before) {
		t.Errorf("given back, it may give %v (%v), want %v", now, err, before)
	}
}
