package diagnose

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"tare/container"
	"tare/kernel/file"
	"tare/kernel/kallsyms"
	"tare/kernel/mount"
	"tare/kernel/overlay"
	"tare/kernel/procfs"
	"tare/probe"
	"tare/probe/bursts"
	"tare/probe/calls"
	"tare/study/kit"
)

const (
	// leastSystem is the time in the kernel, in CPUs, from which a container's stacks are sampled:
	// no cost in the kernel that is worth a line can be below.
	leastSystem = 0.01
	// sampledEach is how often a second each CPU is sampled: a prime, so that it keeps step with nothing.
	sampledEach = 997

	// callWindows is how many windows are opened to count calls. They are at most callShare of the
	// time and longestWindow each: while one is open, every call on the host takes a little longer.
	callWindows   = 10
	callShare     = 0.05
	longestWindow = 40 * time.Millisecond

	// recently is for how long before the watch a file may have been copied up for
	// its container to be one that copies files up.
	recently = 10 * time.Second
	// mostDirectories bounds of how many directories the layers are looked at.
	mostDirectories = 128
)

// InKernel is what a container has the kernel do for the way in which it is contained.
type InKernel struct {
	Layers   overlay.Layers // of its root; none where that is no overlay, or one that a user mounted
	HasLayer bool
	Filtered bool // a seccomp filter sees its system calls
	OwnNet   bool // its network is not the host's

	Sampled Sampled
	Calls   calls.Seen
	Names   Names

	// Copied are the files that were copied up, as far as they were looked for (LookedAtAll).
	Copied      []overlay.Copied
	LookedAtAll bool
	// Blocked is how long threads were off the CPU while they copied files up, and ReclaimWait while they waited
	// for pages to be read or room to be made, in BlockedIn. All are 0 where that was not recorded.
	Blocked, ReclaimWait, BlockedIn time.Duration
	// BlockedLost are events of that recording that were lost, or whose stack was.
	BlockedLost uint64
}

// Sampled counts samples of a container's threads, by what they were doing.
type Sampled struct {
	All     uint64
	CPU     time.Duration // of its threads in that time
	Seccomp uint64
	// Overlay is the overlay's own work, but for looking up names and reading directories, which
	// are done in each layer.
	Overlay          uint64
	LookedUp, Listed perLayer
	Closed           uint64 // files being closed outside of the overlay's code
	CopiedUp         uint64
	// Reclaim is work to read pages from the disk, or to make room for them within a limit.
	Reclaim uint64
}

// perLayer is work that is done in each layer that has a directory. Below is the part of the layers'
// file system, which would do it once without the overlay.
type perLayer struct{ All, Below uint64 }

func (p *perLayer) add(isBelow bool, count uint64) {
	p.All += count
	if isBelow {
		p.Below += count
	}
}

// split parts it into what there is with one layer, and what more layers add.
func (p perLayer) split(depth float64) (own, deep float64) {
	depth = max(1, depth)
	return float64(p.All-p.Below) / depth, float64(p.All) * (1 - 1/depth)
}

// time is what a number of samples is in time on a CPU.
func (s Sampled) time(n float64) time.Duration {
	if s.All == 0 {
		return 0
	}
	return time.Duration(n / float64(s.All) * float64(s.CPU))
}

// half is half of that time's interval of 95 %, where each sample came by itself.
func (s Sampled) half(n float64) time.Duration { return s.time(1.96 * math.Sqrt(n)) }

// is tells functions of the kernel whose names begin so.
func is(prefix ...string) func(function string) bool {
	return func(f string) bool {
		return slices.ContainsFunc(prefix, func(p string) bool { return strings.HasPrefix(f, p) })
	}
}

// add sorts one stack, the innermost function first.
func (s *Sampled) add(stack []string, count uint64) {
	s.All += count
	if reclaims(stack) {
		s.Reclaim += count
	}
	has := func(prefix ...string) bool { return slices.ContainsFunc(stack, is(prefix...)) }
	outermost := -1
	for i, f := range stack {
		if strings.HasPrefix(f, "ovl_") {
			outermost = i
		}
	}
	isBelow := outermost >= 0 && slices.ContainsFunc(stack[:outermost], is(ofFileSystem...))
	switch {
	case len(stack) == 0:
	// The entry itself is there for the filter: without one it is not called.
	case has("__secure_computing", "__seccomp_filter", "seccomp_") || is("syscall_trace_enter")(stack[0]):
		s.Seccomp += count
	case outermost < 0 && has("__fput"):
		s.Closed += count
	case outermost < 0:
	case has("ovl_copy_up"):
		s.CopiedUp += count
	case is("ovl_lookup")(stack[outermost]):
		s.LookedUp.add(isBelow, count)
	case is("ovl_iterate", "ovl_dir_")(stack[outermost]):
		s.Listed.add(isBelow, count)
	case !isBelow:
		s.Overlay += count
	}
}

// reclaims tells a stack of the kernel in which pages are read from the disk, waited for, or pushed out to make room
// within a limit.
func reclaims(stack []string) bool {
	has := func(prefix ...string) bool { return slices.ContainsFunc(stack, is(prefix...)) }
	return has("page_cache_ra_", "page_cache_sync_ra", "page_cache_async_ra", "filemap_readahead",
		"filemap_read_folio", "filemap_create_folio", "filemap_update_page", "__folio_lock_or_retry",
		"__lock_page", "put_and_wait_on_page_locked", // before Linux 5.16
		"swapin_", "swap_read", "shmem_swapin", "try_to_free_mem_cgroup_pages",
		"mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high") ||
		has("folio_wait_bit", "wait_on_page_bit") && has("filemap_get_pages", "filemap_fault", "do_swap_page")
}

// ofFileSystem are functions of the file systems that layers lie on, of the page cache, and those that every
// file system has called once: without the overlay they would be called once, too. A file system often leaves
// reading and writing to the page cache's functions, and is not in the stack then.
var ofFileSystem = []string{
	"ext4_", "xfs_", "btrfs_", "f2fs_", "shmem_", "zpl_", "zfs_", "generic_permission", "generic_fillattr",
	"filemap_", "generic_file_", "generic_perform_write", "iomap_", "netfs_",
}

// Names is what the names that a container looked up show, as far as they were kept.
type Names struct {
	Count   int // of names that could be followed
	InLayer int // of these, in layers
	Listed  int // of those in layers, directories
	// Depth is in how many layers the directories are in which names were looked up, and
	// ListedDepth the same of directories that were named themselves: means, at least 1.
	Depth, ListedDepth float64
	Most               string // the deepest directory below which half of them lie
}

// inKernelOf reads what holds for a container as long as it lives.
func inKernelOf(c container.Container) (k InKernel) {
	p := procfs.Host.Process(c.PID)
	if status, err := p.Status(); err == nil {
		k.Filtered = status.Seccomp == 2
	}
	if mounts, err := p.Mounts(); err == nil {
		if root, ok := mountOf(mounts, "/"); ok && trusted(p) {
			k.Layers, k.HasLayer = overlay.Of(root)
		}
	}
	own, err := os.Readlink(p.Path("ns/net"))
	hosts, hostErr := os.Readlink(procfs.Host.Process(os.Getpid()).Path("ns/net"))
	k.OwnNet = err == nil && hostErr == nil && own != hosts
	return k
}

// trusted reports whether the layers of a root may be looked into. A user who mounted it in a user namespace
// chose their paths, which may lead to a file system that never answers.
func trusted(p procfs.Process) bool {
	root, err := file.Pin(p.Path("root"))
	if err != nil {
		return false
	}
	defer root.Close()
	return mount.Trust(p, root) == nil
}

// mountOf finds the mount on which a path lies. Of several on one point the last is seen.
func mountOf(mounts []procfs.Mount, name string) (found procfs.Mount, ok bool) {
	for _, m := range mounts {
		below := m.Point == "/" || name == m.Point || strings.HasPrefix(name, m.Point+"/")
		if below && len(m.Point) >= len(found.Point) {
			found, ok = m, true
		}
	}
	return found, ok
}

// packets are those that went through the network interfaces of a container's own.
func packets(c container.Container) (sum int64) {
	all, err := procfs.Host.Process(c.PID).Interfaces()
	if err != nil {
		return 0
	}
	for _, i := range all {
		if i.Name != "lo" {
			sum += int64(i.Received + i.Sent)
		}
	}
	return sum
}

// kernelWatch looks into what some containers have the kernel do, while they are watched.
type kernelWatch struct {
	subjects []*subject // those with work in the kernel
	notes    kit.Notes
	counter  *calls.Counter    // nil where calls cannot be counted
	blocking []*subject        // those that copy files up, or read back what their memory limit pushed out
	blocked  *bursts.Recording // of those; nil where there is none
}

// watchKernel chooses among containers after triage: those that copy files up or are short of memory, those that
// spend time in the kernel or were named. Of the others nothing is recorded.
func watchKernel(watched []*subject, named bool, began time.Time) *kernelWatch {
	k := &kernelWatch{}
	var targets []bursts.Target
	for _, s := range watched {
		f := s.facts
		use := s.second.counts.since(s.first.counts)
		copied, _, err := f.InKernel.Layers.CopiedUp(began.Add(-recently))
		if err == nil && len(copied) > 0 || s.isShort {
			if t, err := kit.Target(f.Container); err == nil {
				targets, k.blocking = append(targets, t), append(k.blocking, s)
			}
		} else if !f.InKernel.HasLayer && !f.InKernel.Filtered ||
			!named && rate(use.System, s.second.at.Sub(s.first.at)) < leastSystem {
			continue
		}
		k.subjects = append(k.subjects, s)
	}
	if len(k.subjects) == 0 {
		return k
	}
	var err error
	if k.counter, err = calls.Open(len(k.subjects)); err != nil {
		k.notes.Add("system calls are not counted: %v", err)
		k.counter = nil
	}
	if len(targets) > 0 {
		if k.blocked, err = bursts.Start(targets, bursts.Options{Stacks: true, ExplainFrom: -1}); err != nil {
			k.notes.Add("how long containers waited for the disk is not measured: %v", err)
			k.blocked = nil
		}
	}
	return k
}

// record begins the recording of all that are watched. It samples where there is work in the
// kernel to look into, and the host lets it.
func (k *kernelWatch) record(targets []bursts.Target) (*bursts.Recording, error) {
	options := bursts.Options{Weigh: true}
	if len(k.subjects) > 0 {
		options.Hertz = sampledEach
	}
	r, err := bursts.Start(targets, options)
	var missing *probe.Missing
	if options.Hertz > 0 && errors.As(err, &missing) {
		options.Hertz = 0
		if r, err = bursts.Start(targets, options); err == nil {
			k.notes.Add("what containers have the kernel do is unknown: %v", missing)
		}
	}
	return r, err
}

// close ends what still goes on.
func (k *kernelWatch) close() {
	if k.counter != nil {
		k.counter.Close()
		k.counter = nil
	}
	if k.blocked != nil {
		_, _ = k.blocked.Stop()
	}
}

// wait lets time go by and opens the windows within; false where ctx ended before.
func (k *kernelWatch) wait(ctx context.Context, d time.Duration) bool {
	if k.counter == nil {
		return kit.Wait(ctx, d)
	}
	window := min(longestWindow, time.Duration(callShare*float64(d)/callWindows))
	ends := time.Now().Add(d)
	for n := range callWindows {
		next := ends.Add(-d * time.Duration(callWindows-n) / callWindows).Add(d / callWindows / 2)
		if !kit.Wait(ctx, max(0, time.Until(next))) {
			return false
		}
		if err := k.counter.Watch(ctx, k.processes, window); err != nil {
			k.notes.Add("system calls are not counted to the end: %v", err)
			break
		}
	}
	return kit.Wait(ctx, max(0, time.Until(ends)))
}

// processes are those of each container.
func (k *kernelWatch) processes() (all [][]int) {
	for _, s := range k.subjects {
		pids, err := s.facts.Container.Processes()
		if err != nil {
			pids = nil // it is ending: the next reading of its counters says so
		}
		all = append(all, pids)
	}
	return all
}

// finish gives each container what was seen of it.
func (k *kernelWatch) finish(began time.Time, seen *bursts.Reading) (notes []string) {
	defer k.close()
	if len(k.subjects) == 0 {
		return k.notes
	}
	table, err := kallsyms.Load()
	if err != nil {
		k.notes.Add("what containers have the kernel do is unknown: %v", err)
		return k.notes
	}
	named := func(addresses []uint64) (names []string) {
		for _, a := range addresses {
			s, _, _ := table.Lookup(a)
			names = append(names, s.Name)
		}
		return names
	}
	for i, s := range k.subjects {
		of := &s.facts.InKernel
		group := &seen.Groups[s.facts.Self]
		of.Sampled.CPU = group.CPUTime
		for _, sample := range group.Samples {
			of.Sampled.add(named(sample.Kernel), sample.Count)
		}
		if k.counter != nil {
			of.Calls = k.counter.Seen()[i]
			of.Names = follow(s.facts.Container, of.Layers, of.Calls.Names)
		}
		if of.Copied, of.LookedAtAll, err = of.Layers.CopiedUp(began); err != nil {
			k.notes.Add("%s: %v", s.facts.Container.Name, err)
		}
	}
	if k.blocked == nil {
		return k.notes
	}
	off, err := k.blocked.Stop()
	if err != nil {
		k.notes.Add("how long containers waited for the disk is not measured: %v", err)
		return k.notes
	}
	for i, s := range k.blocking {
		of := &s.facts.InKernel
		of.BlockedIn = off.Span() // which began before the main recording, and ends after it
		of.BlockedLost = off.Lost + off.Unstacked
		for _, a := range off.Groups[i].Absences {
			if a.Waiting {
				continue // it was preempted, or its quota used up, which are findings of their own
			}
			switch stack := named(a.Kernel); {
			case slices.ContainsFunc(stack, is("ovl_copy_up")):
				of.Blocked += a.Time
			case reclaims(stack):
				of.ReclaimWait += a.Time
			}
		}
	}
	return k.notes
}

// follow finds where the names lie that a container looked up.
func follow(c container.Container, l overlay.Layers, names []calls.Name) (n Names) {
	if len(l.Lower) == 0 {
		return n
	}
	mounts, err := procfs.Host.Process(c.PID).Mounts()
	if err != nil {
		return n
	}
	its, err := c.Processes()
	if err != nil {
		return n
	}
	depths, within := map[string]int{}, map[string]int{}
	depth := func(dir string) (int, bool) {
		d, ok := depths[dir]
		if !ok && len(depths) < mostDirectories {
			d, ok = l.Depth(dir), true
			depths[dir] = d
		}
		return d, ok
	}
	var sum, listed float64
	for _, name := range names {
		at, ok := absolute(name)
		if !ok || !slices.Contains(its, name.PID) { // whose id may be another's by now
			continue
		}
		n.Count++
		if m, ok := mountOf(mounts, at); !ok || m.Point != "/" {
			continue
		}
		itself, ok := depth(at)
		above, aboveKnown := depth(path.Dir(at))
		if !ok || !aboveKnown {
			n.Count--
			continue
		}
		n.InLayer++
		if itself > 0 {
			n.Listed++
			listed += float64(itself)
		}
		sum += float64(max(1, above))
		for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
			within[dir]++
		}
	}
	n.Depth, n.ListedDepth = sum/float64(max(1, n.InLayer)), listed/float64(max(1, n.Listed))
	for dir, count := range within {
		if 2*count >= n.InLayer && (len(dir) > len(n.Most) || len(dir) == len(n.Most) && dir < n.Most) {
			n.Most = dir
		}
	}
	n.Depth, n.ListedDepth = cmp.Or(n.Depth, 1), cmp.Or(n.ListedDepth, 1)
	return n
}

// absolute is a name as seen from the container's root; false where its process or its
// directory is gone.
func absolute(name calls.Name) (string, bool) {
	if strings.HasPrefix(name.Text, "/") {
		return path.Clean(name.Text), true
	}
	p := procfs.Host.Process(name.PID)
	from, err := os.Readlink(p.Path("cwd"))
	if name.Directory >= 0 {
		from, err = p.Descriptor(name.Directory)
	}
	if err != nil || !strings.HasPrefix(from, "/") {
		return "", false
	}
	return path.Join(from, name.Text), true
}
