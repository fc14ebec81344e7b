package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/filesystem"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/vm/guest"
)

// PoolOptions are where machines are kept, and what they boot.
type PoolOptions struct {
	// StateDir is tare's directory on this host: machines live in vm/ below it.
	StateDir string
	Ledger   platform.Ledger // nil enters things nowhere
	// Store makes the guest's kernel and tools; nil is one below StateDir.
	Store *image.Store
	// Agent is the path of a static tare; empty is this program.
	Agent string
	// Version is tare's own, which the agent has to be of.
	Version string
	// Bound is how long a machine may take until its agent answers; 0 is the engine's:
	// a minute, and less of KVM.
	Bound time.Duration
}

// Pool has the machines of one tare. Its methods may be called from several goroutines.
type Pool struct {
	options PoolOptions

	// What tests put in the place of this host's.
	host    func() (machineHost, error)
	makeTap func(netns.Link, netip.Prefix) (*netns.Tap, error)

	making  sync.Mutex // of what machines boot from
	store   *image.Store
	files   *guest.Boot // what machines boot from; nil until it is made
	trying  sync.Mutex  // of KVM
	tried   *trial
	booting chan struct{} // one machine boots at a time: taken by who makes it

	mu       sync.Mutex
	all      []*machine
	boots    []*machine             // those that were ever there, for Boots
	users    map[*Platform]bool     // that have prepared an image
	disks    map[string]*imageDisk  // by digest
	wanted   map[*Platform][]string // digests that a platform has prepared
	versions map[string]string      // of inner platforms, by engine and name
	closed   bool
}

// NewPool makes a pool without machines.
func NewPool(o PoolOptions) *Pool {
	return &Pool{
		options:  o,
		host:     thisHost,
		makeTap:  netns.MakeTap,
		store:    o.Store,
		booting:  make(chan struct{}, 1),
		users:    map[*Platform]bool{},
		disks:    map[string]*imageDisk{},
		wanted:   map[*Platform][]string{},
		versions: map[string]string{},
	}
}

// Bounds of a boot. Ordinary machines answer within a few seconds, emulated ones on a
// busy host within a few times that; KVM that needs longer does not virtualise.
const (
	bootBound    = time.Minute
	bootBoundKVM = 30 * time.Second
)

func (p *Pool) bound(e Engine) time.Duration {
	switch {
	case p.options.Bound > 0:
		return p.options.Bound
	case e == KVM:
		return bootBoundKVM
	}
	return bootBound
}

// Entered is the name of the platform that removes what a pool entered in the ledger.
// All of this package's do.
const Entered = "vm"

// machines is the directory that machines' own are in.
func (p *Pool) machines() (string, error) {
	dir, err := machinesIn(p.options.StateDir)
	if err != nil {
		return "", err
	}
	return dir, file.Private(dir)
}

func machinesIn(stateDir string) (string, error) {
	return filepath.Abs(filepath.Join(stateDir, "vm"))
}

// bootFiles gives what machines boot from, made at most once.
func (p *Pool) bootFiles(ctx context.Context) (guest.Boot, error) {
	p.making.Lock()
	defer p.making.Unlock()
	if p.files != nil {
		return *p.files, nil
	}
	if p.store == nil {
		store, err := image.OpenStore(filepath.Join(p.options.StateDir, "images"), nil)
		if err != nil {
			return guest.Boot{}, err
		}
		p.store = store
	}
	dir, err := p.machines()
	if err != nil {
		return guest.Boot{}, err
	}
	b, err := guest.Build(ctx, guest.BuildOptions{Store: p.store, Agent: p.options.Agent, Dir: filepath.Join(dir, "boot")})
	if err != nil {
		return guest.Boot{}, err
	}
	p.files = &b
	return b, nil
}

// lease is the use of a machine.
type lease struct {
	*machine
	once sync.Once
}

// wanted is what somebody wants of a machine.
type wanted struct {
	shape shape
	pin   []int // the host's CPUs that it is held to
	// box is the box that is to be made in it, and that has it for itself from then on;
	// empty where it is shared.
	box string
}

// acquire gives a machine that runs: one that is there and free, or has other programs
// and is held likewise, or a new one.
func (p *Pool) acquire(ctx context.Context, w wanted) (*lease, error) {
	for {
		m, err := p.find(ctx, w)
		if err != nil {
			return nil, err
		}
		l := &lease{machine: m}
		err = m.wake(ctx, w.pin)
		if err == nil {
			return l, nil
		}
		if w.box != "" {
			p.unbox(m)
		}
		l.release(context.WithoutCancel(ctx))
		if m.engine.child.over() && ctx.Err() == nil {
			continue // it ended while it was idle: nothing was lost
		}
		return nil, err
	}
}

// find gives a machine, with one more user.
func (p *Pool) find(ctx context.Context, w wanted) (*machine, error) {
	if m, err := p.free(w); m != nil || err != nil {
		return m, err
	}
	select {
	case p.booting <- struct{}{}:
		defer func() { <-p.booting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Somebody else may have booted one meanwhile.
	if m, err := p.free(w); m != nil || err != nil {
		return m, err
	}
	if err := p.makeRoom(ctx, w.shape.memory); err != nil {
		return nil, err
	}
	m, err := p.bootMachine(ctx, w.shape)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users, m.pin, m.box = 1, w.pin, w.box
	p.all, p.boots = append(p.all, m), append(p.boots, m)
	return m, nil
}

var errClosed = errors.New("the pool of virtual machines is closed")

func (p *Pool) free(w wanted) (*machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	for _, m := range p.all {
		if m.shape != w.shape || m.engine.child.over() || !m.serves(w) {
			continue
		}
		m.users++
		m.pin, m.used, m.box = w.pin, time.Now(), w.box
		return m, nil
	}
	return nil, nil
}

// serves tells that who is in a machine leaves room for another. The pool is held.
func (m *machine) serves(w wanted) bool {
	if m.users == 0 {
		return true
	}
	return m.box == "" && w.box == "" && slices.Equal(m.pin, w.pin)
}

// makeRoom ends machines that nobody uses, those first that were not used for longest,
// until another of that size fits the host.
func (p *Pool) makeRoom(ctx context.Context, wanted int64) error {
	h, err := p.host()
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		var sum int64
		var idle *machine
		for _, m := range p.all {
			sum += m.shape.memory
			if m.users == 0 && (idle == nil || m.used.Before(idle.used)) {
				idle = m
			}
		}
		p.mu.Unlock()
		switch most := memoryBudget(h.memory); {
		case sum+wanted <= most:
			return nil
		case idle == nil:
			return fmt.Errorf("a virtual machine of %s does not fit beside those in use, of %s together: of this host's %s machines may take %s; stop some, or grant less memory",
				size(wanted), size(sum), size(h.memory&^(1<<20-1)), size(most))
		}
		if err := idle.end(ctx); err != nil {
			return err
		}
	}
}

func (p *Pool) inUse(m *machine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.users > 0
}

// forget takes a machine that has ended off the list.
func (p *Pool) forget(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(o *machine) bool { return o == m })
}

// restBound is how long pausing may take.
const restBound = 10 * time.Second

// release gives the machine back. It may be called again.
func (l *lease) release(ctx context.Context) {
	l.once.Do(func() {
		p := l.pool
		p.mu.Lock()
		l.users--
		l.used = time.Now()
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restBound)
		defer cancel()
		l.rest(ctx)
	})
}

// Boots tells of every machine that this pool has booted, those that have ended too.
func (p *Pool) Boots() []Boot {
	p.mu.Lock()
	all := slices.Clone(p.boots)
	p.mu.Unlock()
	boots := make([]Boot, len(all))
	for i, m := range all {
		m.turn <- struct{}{}
		boots[i] = m.boot
		<-m.turn
	}
	return boots
}

// noteVersion keeps what the inner platform says of itself, asked once.
func (p *Pool) noteVersion(ctx context.Context, n Name, inside platform.Platform) {
	key := string(n.Engine) + "/" + n.Inner
	p.mu.Lock()
	_, known := p.versions[key]
	p.mu.Unlock()
	if known {
		return
	}
	version := inside.Version(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions[key] = version
}

func (p *Pool) versionInside(n Name) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.versions[string(n.Engine)+"/"+n.Inner]
}

// imageDisk is an image's root on a disk that machines are given.
type imageDisk struct {
	making sync.Mutex
	path   string
	things *held.Things
	users  int
}

// imageRoom is how much more than an image's files its disk and the host's file system
// take.
const imageRoom = 1.25

// want notes that a platform has prepared the image, and makes its disk.
func (p *Pool) want(ctx context.Context, of *Platform, img image.Image) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errClosed
	}
	p.users[of] = true
	d := p.disks[img.Digest]
	if d == nil {
		d = &imageDisk{things: held.New(p.options.Ledger)}
		p.disks[img.Digest] = d
	}
	if !slices.Contains(p.wanted[of], img.Digest) {
		p.wanted[of] = append(p.wanted[of], img.Digest)
		d.users++
	}
	p.mu.Unlock()
	_, err := p.disk(ctx, img)
	return err
}

// disk gives the path of an image's disk.
func (p *Pool) disk(ctx context.Context, img image.Image) (string, error) {
	p.mu.Lock()
	d := p.disks[img.Digest]
	p.mu.Unlock()
	if d == nil {
		return "", fmt.Errorf("image %s has not been prepared for virtual machines", img.Name)
	}
	d.making.Lock()
	defer d.making.Unlock()
	if d.path != "" {
		return d.path, nil
	}
	parent, err := p.machines()
	if err != nil {
		return "", err
	}
	at, err := filesystem.At(parent)
	if err != nil {
		return "", err
	}
	if need := int64(float64(img.Size) * imageRoom); need > at.Free {
		return "", fmt.Errorf("image %s is too large: its disk for virtual machines takes %d MiB, and %s has %d MiB left: free some, or choose another directory", img.Name, need>>20, parent, at.Free>>20)
	}
	dir := filepath.Join(parent, platform.Unique("vm-image"))
	err = d.things.Take(ctx, platform.Entry{Platform: Entered, Kind: held.Directory, ID: dir}, func() error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		return guest.ImageDisk(ctx, img, filepath.Join(dir, "disk"))
	}, func(context.Context) error { return removeDirectory(parent, dir) })
	if err != nil {
		return "", err
	}
	d.path = filepath.Join(dir, "disk")
	return d.path, nil
}

// unwant is the end of what a platform has prepared. With the last platform's the
// machines end.
func (p *Pool) unwant(ctx context.Context, of *Platform) error {
	p.mu.Lock()
	var unused []*imageDisk
	for _, digest := range p.wanted[of] {
		if d := p.disks[digest]; d != nil {
			if d.users--; d.users == 0 {
				unused = append(unused, d)
				delete(p.disks, digest)
			}
		}
	}
	delete(p.wanted, of)
	last := p.users[of] && len(p.users) == 1
	delete(p.users, of)
	var idle []*machine
	for _, m := range p.all {
		if last && m.users == 0 {
			idle = append(idle, m)
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, m := range idle {
		errs = append(errs, m.end(ctx))
	}
	for _, d := range unused {
		errs = append(errs, d.things.Drop(ctx))
	}
	return errors.Join(errs...)
}

// Close ends every machine, whatever runs in it, and removes all that the pool has made.
// Nothing can be launched then. It may be called again.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	// A boot that goes on has its end first.
	select {
	case p.booting <- struct{}{}:
		defer func() { <-p.booting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	all := slices.Clone(p.all)
	var disks []*imageDisk
	for _, d := range p.disks {
		disks = append(disks, d)
	}
	clear(p.disks)
	p.mu.Unlock()
	var errs []error
	for _, m := range all {
		errs = append(errs, m.end(ctx))
	}
	for _, d := range disks {
		errs = append(errs, d.things.Drop(ctx))
	}
	return errors.Join(errs...)
}
