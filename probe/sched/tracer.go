package sched

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"

	"tare/kernel/procfs"
)

// tracerRing is the room for events of processes, in bytes: some 700 execs that
// the reader has not come to yet, which is hundreds of containers at once.
const tracerRing = 1 << 20

// Tracer observes every fork, exec and end of a process.
type Tracer struct {
	attachment *attachment
	reader     *ringbuf.Reader
	processes  *Processes
	follower   *follower

	read    chan struct{} // closed when the reader has ended
	stop    sync.Once
	stopErr error
	mu      sync.Mutex
	readErr error
	lost    uint64 // once stopped
	stopped bool
}

// Start attaches a tracer, until its Stop. Its error is a [*probe.Missing]
// where this host lacks what it needs.
func Start() (*Tracer, error) {
	a, err := attach(
		[]string{objectProgProcessFork, objectProgProcessExec, objectProgProcessExit},
		func(spec *ebpf.CollectionSpec, _ *btf.Spec) error {
			spec.Maps[objectMapEvents].MaxEntries = tracerRing
			// Who waits, waits for an exec. Forks and ends may come with the next.
			return errors.Join(
				spec.Variables[objectVarUrgentExecs].Set(true),
				spec.Variables[objectVarWakeReaderAt].Set(uint64(tracerRing/4)),
			)
		},
	)
	if err != nil {
		return nil, err
	}
	reader, err := ringbuf.NewReader(a.collection.Maps[objectMapEvents])
	if err != nil {
		a.close()
		return nil, fmt.Errorf("read the ring of events: %w", err)
	}
	t := &Tracer{attachment: a, reader: reader, processes: newProcesses(), read: make(chan struct{})}
	t.follower = newFollower(t.processes)
	// Attached first: no process is missed between.
	if err := t.processes.meet(procfs.Host); err != nil {
		reader.Close()
		a.close()
		return nil, fmt.Errorf("list the processes that run: %w", err)
	}
	go t.loop()
	return t, nil
}

// Follow watches for one start of the container that the platform's own
// processes name id in their arguments, until its program, with exactly these
// arguments, is executed. It has to be asked for before the start.
func (t *Tracer) Follow(id string, args []string) *Following { return t.follower.follow(id, args) }

// ByPID watches for the program in a process, or one that it forks, where no
// process names a container: bare metal. It may be asked for after the start,
// with a moment before it: of a program that was executed since, the record is
// looked up.
func (t *Tracer) ByPID(pid int, since time.Duration, args []string) *Following {
	return t.follower.followPID(pid, since, args)
}

// Processes is the record of all processes; it grows until Stop and may be read
// after. Before, it knows forks only up to the last exec.
func (t *Tracer) Processes() *Processes { return t.processes }

// Lost counts the events that were not seen. With any, marks may be missing and
// processes wrongly described.
func (t *Tracer) Lost() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return t.lost, nil
	}
	return t.attachment.lost()
}

// Stop detaches the tracer, after which nothing of it is left in the kernel. All
// that had happened before has been taken in when it returns. It may be called
// again.
func (t *Tracer) Stop() error {
	t.stop.Do(func() { t.stopErr = t.end() })
	return t.stopErr
}

func (t *Tracer) end() error {
	err := t.attachment.detach()
	flush := t.reader.Flush()
	if flush == nil {
		<-t.read
	}
	t.follower.stop()
	lost, lostErr := t.attachment.lost()
	t.mu.Lock()
	t.lost, t.stopped = lost, true
	readErr := t.readErr
	t.mu.Unlock()
	err = errors.Join(err, flush, readErr, lostErr, t.reader.Close(), t.attachment.close())
	<-t.read
	if err != nil {
		return fmt.Errorf("stop tracing processes: %w", err)
	}
	return nil
}

func (t *Tracer) loop() {
	defer close(t.read)
	// Whoever waits for a start must not wait for ever for a reader that is gone.
	defer t.follower.stop()
	err := drain(t.reader, func(b []byte) error {
		e, err := decode(b)
		if err != nil {
			return err
		}
		t.processes.observe(e)
		t.follower.observe(e)
		return nil
	})
	t.mu.Lock()
	t.readErr = err
	t.mu.Unlock()
}

// drain hands each record of a ring to use until the ring is flushed or closed.
// The bytes are use's only until it returns.
func drain(r *ringbuf.Reader, use func([]byte) error) error {
	var record ringbuf.Record
	for {
		switch err := r.ReadInto(&record); {
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read the ring of events: %w", err)
		}
		if err := use(record.RawSample); err != nil {
			return err
		}
	}
}
