package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/netns"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/held"
)

// book is a ledger that watches: what is entered must not exist yet, and what
// is crossed out must be gone.
type book struct {
	t *testing.T

	mu      sync.Mutex
	open    []*line
	all     []platform.Entry
	entered int
	last    time.Time // when the latest entry stood
	// onAdd, where set, is called with the number of each entry, from 1,
	// before it is accepted; its error refuses the entry.
	onAdd func(n int) error
}

type line struct{ platform.Entry }

func (b *book) Add(e platform.Entry) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entered++
	if b.onAdd != nil {
		if err := b.onAdd(b.entered); err != nil {
			return nil, err
		}
	}
	// A bridge is shared by those who need it: whoever comes later finds it.
	if there, known := exists(e); known && there && !b.isOpen(e) && e.Kind != held.Link {
		b.t.Errorf("the %s %s existed before it was entered in the ledger", e.Kind, e.ID)
	}
	l := &line{e}
	b.open = append(b.open, l)
	b.all = append(b.all, e)
	b.last = time.Now()
	return func() { b.crossOut(l) }, nil
}

func (b *book) isOpen(e platform.Entry) bool {
	for _, l := range b.open {
		if l.Kind == e.Kind && l.ID == e.ID {
			return true
		}
	}
	return false
}

func (b *book) crossOut(l *line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.open {
		if o == l {
			b.open = append(b.open[:i], b.open[i+1:]...)
			if there, known := exists(l.Entry); known && there && !b.isOpen(l.Entry) && l.Kind != held.Link {
				b.t.Errorf("the %s %s was crossed out while it exists", l.Kind, l.ID)
			}
			return
		}
	}
	b.t.Errorf("the %s %s was crossed out twice", l.Kind, l.ID)
}

// left lists what is not crossed out, the latest first.
func (b *book) left() []platform.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []platform.Entry
	for i := len(b.open) - 1; i >= 0; i-- {
		entries = append(entries, b.open[i].Entry)
	}
	return entries
}

// stood is when the latest entry was accepted.
func (b *book) stood() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *book) ever() []platform.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]platform.Entry(nil), b.all...)
}

// exists looks for what an entry names. known is false for things that only
// the platform can look for, such as an engine's containers.
func exists(e platform.Entry) (there, known bool) {
	switch e.Kind {
	case held.Directory, held.NetNS:
		_, err := os.Lstat(e.ID)
		return err == nil, true
	case held.Mount:
		mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
		for _, m := range mounts {
			there = there || m.Point == e.ID
		}
		return there, err == nil
	case held.Cgroup:
		layout, err := cgroup.Host()
		return err == nil && layout.At(e.ID).Exists(), err == nil
	case held.Link:
		there, err := netns.Exists(e.ID)
		return there, err == nil
	case held.Process:
		id, err := process.ParseIdentity(e.ID, e.Attrs[held.Start])
		if err != nil {
			return false, false
		}
		now, err := process.Identify(id.PID)
		return err == nil && now == id, true
	}
	return false, false
}

// leftOver reports whether what an entry names is on the host still. A device's
// name is an address' too, and the bridge is the host's: others may have the one
// by now, and use the other.
func leftOver(e platform.Entry) bool {
	there, known := exists(e)
	if !there || !known || e.Kind != held.Link {
		return there && known
	}
	// Whoever leaves the bridge last removes it, a moment after it has left.
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		device := filepath.Join("/sys/class/net", e.ID)
		address, err := os.ReadFile(filepath.Join(device, "address"))
		if err != nil || strings.TrimSpace(string(address)) != e.Attrs[held.MAC] {
			return false
		}
		if ports, err := os.ReadDir(filepath.Join(device, "brif")); err == nil && len(ports) > 0 {
			return false
		}
	}
	return true
}

// marker is the environment variable that the processes of one instance carry.
const marker = "TARE_CONFORMANCE"

// processesOf lists living processes that carry the mark of the instance.
func processesOf(name string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte(marker+"="+name+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// children lists this program's own.
func children() []int {
	pids, _ := procfs.Host.Process(os.Getpid()).Children()
	return pids
}

// traces lists what is found on the host of an instance, by its name.
func traces(name string) []string {
	var found []string
	for _, pid := range processesOf(name) {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	for _, pid := range children() {
		b, err := os.ReadFile(procfs.Host.Process(pid).Path("cgroup"))
		if err == nil && strings.Contains(string(b), "/"+name) {
			found = append(found, fmt.Sprintf("unreaped child %d", pid))
		}
	}
	mounts, _ := procfs.Host.Process(os.Getpid()).Mounts()
	for _, m := range mounts {
		if strings.Contains(m.Point, "/"+name) {
			found = append(found, "mount "+m.Point)
		}
	}
	layout, _ := cgroup.Host()
	for _, h := range layout.Hierarchies {
		_ = filepath.WalkDir(h.Mount, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // removed meanwhile, by somebody else
			}
			if strings.Contains(d.Name(), name) {
				found = append(found, "cgroup "+path)
			}
			return nil
		})
	}
	return found
}
