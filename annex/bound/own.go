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
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

// Own is the control group that this program runs in, of whose weight on the processors it
// can give some up (cpu.shares, Documentation/scheduler/sched-design-CFS.rst; cpu.weight,
// cgroup-v2.rst). Nice values and scheduling classes do not do that: they count among the
// programs of one group only, and containers are in theirs. Its methods are to be called one
// at a time.
type Own struct {
	knobs  Knobs
	layout cgroup.Layout

	mu   sync.Mutex
	kept string // the knob that is changed; empty where none is
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

// Yield has the group weigh that share of what it did, until [Own.Resume]. The error is a
// [*Shared] where others would weigh less with it. What somebody else has set since is from
// then on what it weighs.
func (o *Own) Yield(share float64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.resume(); err != nil {
		return err
	}
	file, least, err := o.knob()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	whole, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s holds %q, and no number (cpu.idle?): it is left as it is", file, strings.TrimSpace(string(text)))
	}
	little := max(least, int(share*float64(whole)))
	if little >= whole {
		return nil
	}
	if err := o.knobs.Keep(context.Background(), file, strconv.Itoa(little)); err != nil {
		return err
	}
	o.kept = file
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

// knob is the file by which the program's group, and nobody else, is weighed.
func (o *Own) knob() (file string, least int, err error) {
	g, _, err := o.layout.Of(os.Getpid())
	if err != nil {
		return "", 0, err
	}
	place, ok := g.For("cpu")
	if !ok {
		return "", 0, &Shared{"/", "no hierarchy here has the cpu controller"}
	}
	name, least := "cpu.weight", leastWeight
	if place.Version == 1 {
		name, least = "cpu.shares", leastShares
	}
	if place.Dir() == filepath.Clean(place.Mount) {
		return "", 0, &Shared{place.Path, "it is everybody's"}
	}
	if _, err := os.Stat(place.File(name)); errors.Is(err, os.ErrNotExist) {
		return "", 0, &Shared{place.Path, "it has no " + name}
	}
	pids, err := cgroup.Group{Places: []cgroup.Place{place}}.Processes()
	if err != nil {
		return "", 0, err
	}
	for _, pid := range pids {
		if !isOwn(pid) {
			return "", 0, &Shared{place.Path, fmt.Sprintf("process %d is in it too", pid)}
		}
	}
	return place.File(name), least, nil
}

// isOwn tells whether a process is this program, or its guard.
func isOwn(pid int) bool {
	if pid == os.Getpid() {
		return true
	}
	stat, err := procfs.Host.Process(pid).Stat()
	return err != nil || stat.Parent == os.Getpid() // one that has ended weighs nothing
}
