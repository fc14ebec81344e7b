package bound

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

// Own is the control group that this program runs in, of whose weight on the processors it
// can give some up (cpu.shares, Documentation/scheduler/sched-design-CFS.rst; cpu.weight,
// cgroup-v2.rst). Nice values and scheduling classes do not do that: they count among the
// programs of one group only, and containers are in theirs.
type Own struct {
	knobs  Knobs
	layout cgroup.Layout

	mu     sync.Mutex
	kept   string // the knob that is changed; empty where none is
	little string // what it then holds
	share  float64
}

// Own gives the program's own group; nil without a guard.
func (b *Bound) Own() *Own {
	if b.options.Knobs == nil {
		return nil
	}
	return &Own{knobs: b.options.Knobs, layout: b.layout}
}

// Shared says why the weight of the program's control group is not its own to change.
type Shared struct{ Group, Why string }

func (s *Shared) Error() string {
	return fmt.Sprintf("the CPU weight of annexd's control group %s is left as it is: %s; its unit gives it one of its own", s.Group, s.Why)
}

// The least that the kernel takes.
const (
	leastShares = 2
	leastWeight = 1
)

// Yield has the group weigh that share of what it did, until [Own.Resume]. It may be called
// again, and is to be now and then: what somebody else has set since is from then on what it
// weighs, and a group that it was moved to is its own. The error is a [*Shared] where others
// would weigh less with it.
func (o *Own) Yield(share float64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, err := o.knob()
	if err == nil && k.file == o.kept && share == o.share && k.text == o.little {
		return nil
	}
	if err := errors.Join(err, o.resume()); err != nil {
		return err
	}
	if k, err = o.knob(); err != nil { // it may hold what it did before by now
		return err
	}
	whole, err := strconv.Atoi(k.text)
	if err != nil {
		return fmt.Errorf("%s holds %q, and no number", k.file, k.text)
	}
	little := max(k.least, int(share*float64(whole)))
	if little >= whole {
		return &Shared{k.group, fmt.Sprintf("%d is the least there is", whole)}
	}
	text := strconv.Itoa(little)
	if err := o.knobs.Keep(context.Background(), k.file, text); err != nil {
		return err
	}
	o.kept, o.little, o.share = k.file, text, share
	return nil
}

// Resume has the group weigh again what it did.
func (o *Own) Resume() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.resume()
}

func (o *Own) resume() error {
	if o.kept == "" {
		return nil
	}
	_, err := o.knobs.Restore(o.kept)
	if err == nil {
		o.kept = ""
	}
	return err
}

// Time is how long the program's threads have run, and been ready to and had no processor.
func (o *Own) Time() (ran, waited time.Duration, err error) {
	if ran, err = process.CPUTime(); err != nil {
		return 0, 0, err
	}
	waited, err = process.Waited()
	return ran, waited, err
}

// weightKnob is the file by which a group is weighed, and what it holds.
type weightKnob struct {
	group, file, text string
	least             int
}

// knob is the one by which the program's group, and nobody else, is weighed.
func (o *Own) knob() (weightKnob, error) {
	g, _, err := o.layout.Of(os.Getpid())
	if err != nil {
		return weightKnob{}, err
	}
	place, ok := g.For("cpu")
	if !ok {
		return weightKnob{}, &Shared{"/", "no hierarchy here has the cpu controller"}
	}
	k := weightKnob{place.Path, place.File("cpu.weight"), "", leastWeight}
	if place.Version == 1 {
		k.file, k.least = place.File("cpu.shares"), leastShares
	}
	shared := func(why string, args ...any) (weightKnob, error) {
		return weightKnob{}, &Shared{place.Path, fmt.Sprintf(why, args...)}
	}
	if place.Dir() == filepath.Clean(place.Mount) {
		return shared("it is the topmost one")
	}
	if idle, err := os.ReadFile(place.File("cpu.idle")); err == nil && strings.TrimSpace(string(idle)) != "0" {
		return shared("it has what others leave (cpu.idle)")
	}
	text, err := os.ReadFile(k.file)
	if errors.Is(err, os.ErrNotExist) {
		return shared("it has no %s", filepath.Base(k.file))
	}
	if err != nil {
		return weightKnob{}, err
	}
	k.text = strings.TrimSpace(string(text))
	pids, err := cgroup.Group{Places: []cgroup.Place{place}}.Processes()
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return shared("it is a part of one that is threaded")
	}
	if err != nil {
		return weightKnob{}, err
	}
	for _, pid := range pids {
		own, err := isOwn(pid)
		if err != nil {
			return weightKnob{}, err
		}
		if !own {
			return shared("process %d is in it too", pid)
		}
	}
	return k, nil
}

// isOwn tells whether a process is this program, or its guard. One that has ended weighs
// nothing.
func isOwn(pid int) (bool, error) {
	if pid == os.Getpid() {
		return true, nil
	}
	stat, err := procfs.Host.Process(pid).Stat()
	if procfs.Gone(err) {
		return true, nil
	}
	return stat.Parent == os.Getpid(), err
}
