package monitor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"tare/annex"
	"tare/kernel/descriptor"
	"tare/probe/bpf"
)

// stream is the BPF programs, and the one goroutine that reads what they tell.
type stream struct {
	m          *Monitor
	collection *ebpf.Collection
	links      bpf.Links
	ring       *ringbuf.Reader
	waiting    *descriptor.Awaited // for the ring
	done       chan struct{}

	mu         sync.Mutex // guards what is told to the programs
	generation uint32
	watched    [2]uint32 // containers of each hierarchy
	firsts     uint32    // of them those that come first
	waits      waits

	// The goroutine's own.
	out   batches
	awake map[uint32]*waking
	due   time.Time // of those that are awake, the first is to be asked after; zero is never
	lost  uint64    // reported
	fence atomic.Uint32
	raw   ringbuf.Record
}

// waking is a container that is awake.
type waking struct {
	id     annex.ID
	before uint64 // CPU time that it had taken when it woke
	asked  uint64 // and when it was last asked after
	due    time.Time
}

// kernelDirectory and kernelContext are as bpf/monitor.c lays them out.
type kernelDirectory struct {
	ID           uint64
	Hierarchy, _ uint32
}

// kernelFirst marks the number of a container that comes first.
const kernelFirst = 1 << 31

type kernelContext struct {
	Last, CPU, From, Used uint64
	Awake, _              uint32
}

// kernelRest is what is asked of a container that was awake, and answered.
type kernelRest struct {
	Number, Slept     uint32
	Before, Last, CPU uint64
	Running, Gone     uint32
}

func openStream(m *Monitor) (_ *stream, err error) {
	s := &stream{m: m, done: make(chan struct{}), awake: map[uint32]*waking{}}
	if s.collection, err = load(m.options, m.layout); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.collection.Close()
		}
	}()
	if s.waits, err = openWaits(s.collection); err != nil {
		return nil, err
	}
	if s.ring, err = ringbuf.NewReader(s.collection.Maps[objectMapEvents]); err != nil {
		return nil, fmt.Errorf("read the ring of events: %w", err)
	}
	s.ring.SetDeadline(time.Unix(1, 0)) // it never waits: we do
	defer func() {
		if err != nil {
			err = errors.Join(err, s.ring.Close())
		}
	}()
	if s.waiting, err = descriptor.Await(s.collection.Maps[objectMapEvents].FD(), "ring of events"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.waiting.Close())
		}
	}()
	if s.links, err = needs.Attach(s.collection, attached); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *stream) set(name string, value any) error {
	if err := s.collection.Variables[name].Set(value); err != nil {
		return fmt.Errorf("set %s of the BPF programs: %w", name, err)
	}
	return nil
}

func (s *stream) count(name string) (n uint64, err error) {
	if err := s.collection.Variables[name].Get(&n); err != nil {
		return 0, fmt.Errorf("read %s of the BPF programs: %w", name, err)
	}
	return n, nil
}

func (s *stream) counts() (c Counts, err error) {
	for name, to := range map[string]*uint64{
		objectVarLost: &c.Lost, objectVarOthers: &c.Others, objectVarUnsettled: &c.Unsettled,
	} {
		n, err := s.count(name)
		if err != nil {
			return Counts{}, err
		}
		*to = n
	}
	return c, nil
}

func (s *stream) watch(c *container) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	contexts, number := s.collection.Maps[objectMapContexts], c.number
	if c.first {
		number |= kernelFirst // which has no context: what it does is not kept
	} else if err := contexts.Put(number, kernelContext{}); err != nil {
		return fmt.Errorf("watch a control group: %w", err)
	}
	h := hierarchyOf(c.place)
	if err := s.collection.Maps[objectMapRoots].Put(kernelDirectory{ID: c.group, Hierarchy: h}, number); err != nil {
		err = fmt.Errorf("watch a control group: %w", err)
		if !c.first {
			err = errors.Join(err, contexts.Delete(number))
		}
		return err
	}
	s.watched[h]++
	if c.first {
		s.firsts++
	}
	return s.changed()
}

func (s *stream) unwatch(c *container) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := hierarchyOf(c.place)
	s.watched[h]--
	if c.first {
		s.firsts--
	}
	err := errors.Join(
		s.collection.Maps[objectMapRoots].Delete(kernelDirectory{ID: c.group, Hierarchy: h}),
		s.changed())
	if !c.first {
		err = errors.Join(err, s.collection.Maps[objectMapContexts].Delete(c.number))
	}
	return err
}

// changed has every directory judged anew.
func (s *stream) changed() error {
	s.generation++
	if s.generation == 0 { // which is nothing yet
		s.generation++
	}
	return errors.Join(
		s.set(objectVarWatched, s.watched),
		s.set(objectVarFirsts, s.firsts),
		s.set(objectVarGeneration, s.generation),
	)
}

func (s *stream) run() {
	defer close(s.done)
	s.m.ended(s.read())
}

// read takes what comes until the monitor closes. It waits while nothing happens; after
// something did, it looks once a delay, so that what comes meanwhile wakes nobody.
func (s *stream) read() error {
	for {
		some, err := s.drain()
		if err != nil {
			return err
		}
		if err := s.rest(time.Now()); err != nil {
			return err
		}
		if err := s.tellLost(); err != nil {
			return err
		}
		if !s.out.send(s.m.events, s.m.closing) {
			return nil
		}
		if some {
			err = s.pause()
		} else {
			err = s.await()
		}
		select {
		case <-s.m.closing: // which closes what we wait for, too
			return nil
		default:
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("wait for the ring of events: %w", err)
		}
	}
}

// drain takes what is in the ring, as much as is handed over at once.
func (s *stream) drain() (some bool, err error) {
	for s.ring.AvailableBytes() > 0 && !s.full() {
		if err := s.ring.ReadInto(&s.raw); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue // that of the past, which keeps it from waiting
			}
			return some, fmt.Errorf("read the ring of events: %w", err)
		}
		some = true
		if err := s.take(s.raw.RawSample); err != nil {
			return some, err
		}
	}
	return some, nil
}

// pause waits for a delay, or until a container wakes.
func (s *stream) pause() error {
	asked := false
	return s.waiting.Until(time.Now().Add(s.m.options.Delay), func() bool {
		done := asked
		asked = true
		return done
	})
}

// await waits until something comes, or the next container is to be asked after. What came
// before it could be seen that we wait woke nobody: so the ring is looked into first.
func (s *stream) await() error {
	if err := s.set(objectVarArmed, uint32(1)); err != nil {
		return err
	}
	s.fence.Add(1) // or the processor could look before others see that we wait
	return s.waiting.Until(s.due, func() bool { return s.ring.AvailableBytes() > 0 })
}

// full tells that enough was gathered to be handed over.
func (s *stream) full() bool {
	n := len(s.out.all)
	return n >= queue || n > 0 && len(s.out.all[n-1].Faults) >= most
}

func (s *stream) take(b []byte) error {
	r, err := decode(b)
	if err != nil {
		return err
	}
	c := s.m.container(r.number)
	if c == nil {
		return nil // it is no longer watched
	}
	if r.kind != kindWoke {
		s.out.add(c.id, r)
		return nil
	}
	w := &waking{id: c.id, before: r.value, asked: r.value, due: time.Now().Add(s.m.options.Dormancy)}
	s.awake[r.number] = w
	if s.due.IsZero() || w.due.Before(s.due) {
		s.due = w.due
	}
	s.out.activity(annex.Activity{ID: c.id, What: annex.Woke, At: r.at})
	return nil
}

// rest asks after the containers that have been awake for a dormancy since they were last
// asked after: whether they ran more than a murmur.
func (s *stream) rest(now time.Time) error {
	if s.due.IsZero() || s.due.After(now) {
		return nil
	}
	s.due = time.Time{}
	for number, w := range s.awake {
		if !w.due.After(now) {
			if err := s.ask(number, w, now); err != nil {
				return err
			}
		}
		if s.awake[number] != nil && (s.due.IsZero() || w.due.Before(s.due)) {
			s.due = w.due
		}
	}
	return nil
}

// ask lets a container sleep, if it does.
func (s *stream) ask(number uint32, w *waking, now time.Time) error {
	w.due = now.Add(s.m.options.Dormancy)
	ask := kernelRest{Number: number, Before: w.asked}
	options := &ebpf.RunOptions{Context: &ask, ContextOut: &ask}
	if _, err := s.collection.Programs[objectProgRest].Run(options); err != nil {
		return fmt.Errorf("ask whether %s sleeps: %w", w.id, err)
	}
	w.asked = ask.CPU
	if ask.Gone == 0 && ask.Slept == 0 {
		return nil
	}
	delete(s.awake, number)
	if ask.Slept != 0 && s.m.container(number) != nil {
		s.out.activity(
			annex.Activity{
				ID:   w.id,
				What: annex.Slept,
				At:   annex.Moment(ask.Last),
				CPU:  time.Duration(ask.CPU - w.before),
			},
		)
	}
	return nil
}

func (s *stream) tellLost() error {
	lost, err := s.count(objectVarLost)
	if err != nil {
		return err
	}
	if lost > s.lost {
		s.out.lost(lost - s.lost)
		s.lost = lost
	}
	return nil
}

// close ends the reading before it takes the ring away, into which the reader looks.
func (s *stream) close() error {
	err := errors.Join(s.links.Close(), s.waiting.Close())
	<-s.done
	err = errors.Join(err, s.ring.Close())
	s.collection.Close()
	return err
}
