package guard

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tare/kernel/process"
)

// readyWord begins the line by which the guard process says that it watches.
const readyWord = "ready"

// The descriptors that it inherits, besides the lock, which it only holds.
const (
	pipeDescriptor   = 3
	answerDescriptor = 4
)

// The guard process is small, and so no candidate of the OOM killer's; but a daemon that
// was made the first to die must not have its guard die with it. Where it is not allowed
// to be put last, the note says so.
const lastToDie = -900

// Main is the guard process, where this program was started as one: ours tells that, and
// code is what to exit with. It is to be called before anything else.
//
//	if code, ours := guard.Main(os.Args); ours {
//		os.Exit(code)
//	}
func Main(args []string) (code int, ours bool) {
	if len(args) < 5 || args[1] != argument {
		return 0, false
	}
	lease, err := time.ParseDuration(args[3])
	if err != nil {
		return 2, true
	}
	// Whoever ends a whole control group, as systemd does, would end it before its time;
	// it ends by itself with the daemon.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte(processName), 0) // for people: nothing rests on it
	note := ""
	if err := process.SetOOMScore(lastToDie); err != nil {
		note = fmt.Sprintf("the OOM killer may choose the guard process: %v", err)
	}
	pipe, answers := os.NewFile(pipeDescriptor, "pipe"), os.NewFile(answerDescriptor, "answers")
	if _, err := fmt.Fprintln(answers, readyWord, note); err != nil {
		return 1, true
	}
	o := Options{Journal: args[2], Lease: lease, Roots: args[4:]}
	attend(pipe, o)
	if err := o.atTheEnd(); err != nil {
		return 1, true
	}
	return 0, true
}

// attend hears of changes until the daemon's end, and takes momentary ones back that are
// there for too long.
func attend(pipe io.Reader, o Options) {
	lines := make(chan line)
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(pipe, longest)
		for {
			text, err := in.ReadSlice('\n')
			if err != nil {
				return // the daemon's end; a part of a line is of nothing that was done
			}
			if l, err := parseLine(bytes.TrimSuffix(text, []byte("\n"))); err == nil {
				lines <- l
			}
		}
	}()
	leases := map[uint64]lease{}
	for {
		var soonest <-chan time.Time
		if e, ok := first(leases); ok {
			soonest = time.After(time.Until(e.until))
		}
		select {
		case l, ok := <-lines:
			switch {
			case !ok:
				return
			case l.Open != nil && l.Open.Kind == Momentary:
				leases[l.Number] = lease{*l.Open, time.Now().Add(o.Lease)}
			case l.End == Failed: // what kept the daemon from it, such as too many open files, need not keep us
			default:
				delete(leases, l.Number)
			}
		case <-soonest:
			e, _ := first(leases)
			// It stays open in the journal, for the daemon to close, or for the end. Where
			// there is nothing to put back the write may still be under way; what failed is
			// tried again.
			switch e.entry.restore(o.Roots, entriesOf(leases)).Ending {
			case Already, Failed:
				leases[e.entry.Number] = lease{e.entry, time.Now().Add(o.Lease)}
			default:
				delete(leases, e.entry.Number)
			}
		}
	}
}

// lease is a momentary change, and how long the daemon has to take it back.
type lease struct {
	entry Entry
	until time.Time
}

func entriesOf(leases map[uint64]lease) (all []Entry) {
	for _, l := range leases {
		all = append(all, l.entry)
	}
	return all
}

func first(leases map[uint64]lease) (soonest lease, ok bool) {
	for _, l := range leases {
		if !ok || l.until.Before(soonest.until) {
			soonest, ok = l, true
		}
	}
	return soonest, ok
}

// atTheEnd puts everything back that the journal has open. What the daemon was writing to
// it is not there whole, and was not done.
func (o Options) atTheEnd() error {
	j, err := read(o.Journal)
	damaged := new(Damaged)
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	if len(j.Open) == 0 && err == nil {
		return nil
	}
	all := restoreAll(j.Open, o.Roots)
	s, opening := resume(o.Journal, j)
	if opening != nil {
		return errors.Join(opening, failures(all))
	}
	for _, outcome := range all {
		_, crossing := s.cross(outcome.Number, outcome.Ending)
		err = errors.Join(err, crossing)
	}
	return errors.Join(err, s.close(), failures(all))
}
