package diagnose

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/overlay"
	"tare/kernel/procfs"
	"tare/probe/calls"
)

// stacks as a kernel has them, the outermost function left out where it says nothing.
const (
	inFilter   = "populate_seccomp_data < __seccomp_filter < syscall_trace_enter < do_syscall_64"
	inEntry    = "syscall_trace_enter < do_syscall_64"
	inCall     = "__task_pid_nr_ns < __x64_sys_getppid < do_syscall_64"
	permission = "ovl_permission < inode_permission < link_path_walk < path_openat"
	generic    = "generic_permission < ovl_permission < inode_permission < link_path_walk"
	lookup     = "d_alloc_parallel < lookup_one_unlocked < ovl_lookup_single < ovl_lookup_layer < ovl_lookup < __lookup_slow"
	below      = "ext4_lookup < lookup_one_unlocked < ovl_lookup_single < ovl_lookup_layer < ovl_lookup < __lookup_slow"
	readDir    = "ext4_readdir < iterate_dir < ovl_dir_read_merged < ovl_iterate < iterate_dir"
	readFile   = "filemap_read < ext4_file_read_iter < backing_file_read_iter < ovl_read_iter < vfs_read"
	cachedRead = "_copy_to_iter < filemap_read < do_iter_readv_writev < backing_file_read_iter < ovl_read_iter < vfs_read"
	diskRead   = "iowrite16 < read_pages < page_cache_ra_unbounded < filemap_get_pages < filemap_read < ovl_read_iter < vfs_read"
	waitsForIt = "schedule < io_schedule < folio_wait_bit_common < filemap_get_pages < filemap_read < vfs_read"
	writesBack = "schedule < io_schedule < folio_wait_bit_common < folio_wait_writeback < ext4_sync_file < __x64_sys_fsync"
	makesRoom  = "shrink_lruvec < try_to_free_mem_cgroup_pages < charge_memcg < filemap_add_folio < ext4_da_write_begin"
	closing    = "ext4_release_file < __fput < task_work_run"
	copying    = "ext4_buffered_write_iter < do_splice_direct < ovl_copy_up_file < ovl_copy_up_flags < ovl_open < do_dentry_open"
)

func TestStacksAreSorted(t *testing.T) {
	for stack, want := range map[string]Sampled{
		"":         {},
		inCall:     {},
		inFilter:   {Seccomp: 1},
		inEntry:    {Seccomp: 1},
		permission: {Overlay: 1},
		generic:    {},
		lookup:     {LookedUp: perLayer{All: 1}},
		below:      {LookedUp: perLayer{1, 1}},
		readDir:    {Listed: perLayer{1, 1}},
		readFile:   {},
		cachedRead: {},
		diskRead:   {Reclaim: 1},
		waitsForIt: {Reclaim: 1},
		writesBack: {},
		makesRoom:  {Reclaim: 1},
		closing:    {Closed: 1},
		copying:    {CopiedUp: 1},
		// What a traced call does is not the filter's.
		"perf_trace_sys_enter < syscall_trace_enter < do_syscall_64": {},
	} {
		var s Sampled
		var names []string
		if stack != "" {
			names = strings.Split(stack, " < ")
		}
		s.add(names, 1)
		if want.All = 1; s != want {
			t.Errorf("%s: %+v, want %+v", stack, s, want)
		}
	}
}

// hot is a container of 40 layers: 8000 samples are 8 s on a CPU, of which the overlay's own
// work takes 800 ms.
func hot() *Facts {
	seen := calls.Seen{Counts: calls.Counts{Calls: 40_000, Lookups: 20_000, Opens: 20_000}, Span: 400 * ms}
	return &Facts{
		Container: container.Container{Engine: container.Docker, Name: "web"}, CPUs: 2, Span: 10 * time.Second, Watched: 8 * time.Second,
		InKernel: InKernel{
			HasLayer: true, Layers: overlay.Layers{Lower: make([]string, 40), Upper: "/upper"}, LookedAtAll: true,
			Sampled: Sampled{All: 8000, CPU: 8 * time.Second, Overlay: 800},
			Calls:   seen, Names: Names{Count: 100, InLayer: 100, Depth: 1, ListedDepth: 1, Most: "/data"},
		},
	}
}

func TestHotOpensInLayers(t *testing.T) {
	found := one(t, Diagnose(quietHost, []*Facts{hot()}))
	if found.Kind != Layers || found.Level != High || found.Based != Estimated {
		t.Errorf("%s is %s, %s", found.ID, found.Level, found.Based)
	}
	near(t, "cost", found.Cost.Rate, 0.1)
	near(t, "events", found.Cost.Events, 50_000)
	near(t, "each", found.Cost.Each.Seconds(), 0.1/50_000)
	if len(found.Set) != 1 || found.Set[0].Command != "--volume NAME:/data" {
		t.Errorf("to be set: %+v, want a volume alone: one layer would cost as much", found.Set)
	}
	f := hot() // each file that is opened is closed twice, once for the overlay
	f.InKernel.Sampled.Closed = 400
	near(t, "cost with closing", one(t, Diagnose(quietHost, []*Facts{f})).Cost.Rate, 0.125)
	f.InKernel.Names.InLayer = 0 // names of a directory that the program has left cannot be followed
	if says := one(t, Diagnose(quietHost, []*Facts{f})).Says; says != "uses files in 40 image layers" {
		t.Errorf("says %q where no name was followed", says)
	}
}

// Names that are looked up in forty layers: what one layer would cost is not the layers'.
func TestDeepLookups(t *testing.T) {
	f := hot()
	f.InKernel.Sampled = Sampled{All: 8000, CPU: 8 * time.Second, LookedUp: perLayer{All: 1600, Below: 800}}
	f.InKernel.Names.Depth = 40
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	near(t, "cost", found.Cost.Rate, 0.2-0.1/40)
	if len(found.Set) != 2 || found.Set[0].Command != "docker export web | docker import - NAME" {
		t.Errorf("to be set: %+v, want one layer first", found.Set)
	}
	f.InKernel.Names.Depth = 1
	near(t, "cost in one layer", one(t, Diagnose(quietHost, []*Facts{f})).Cost.Rate, 0.1)
}

func TestLayersThatCostNothing(t *testing.T) {
	rare, reads, noLayer := hot(), hot(), hot()
	rare.InKernel.Sampled.Overlay = 40
	reads.InKernel.Sampled.Overlay = 0 // what it reads lies below the overlay
	noLayer.InKernel.HasLayer = false
	for what, f := range map[string]*Facts{"opens few": rare, "reads": reads, "is on no overlay": noLayer} {
		if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
			t.Errorf("one that %s: %+v", what, found)
		}
	}
}

func TestALargeCopyUp(t *testing.T) {
	f := hot()
	f.InKernel.Sampled = Sampled{All: 4000, CPU: 4 * time.Second, CopiedUp: 400}
	f.InKernel.Copied = []overlay.Copied{{Path: "/small", Bytes: 4096}, {Path: "/var/db/table", Bytes: 160 << 20}}
	f.InKernel.Blocked, f.InKernel.BlockedIn = 1800*ms, 12*time.Second
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Kind != CopyUps || found.Based != Measured || found.Set[0].Command != "--volume NAME:/var/db" {
		t.Errorf("%s, %s, to be set: %+v", found.ID, found.Based, found.Set)
	}
	near(t, "cost", found.Cost.Rate, 0.2)
	near(t, "each", found.Cost.Each.Seconds(), 1)
	f.InKernel.Blocked, f.InKernel.BlockedIn = 0, 0
	found = one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Based != Estimated {
		t.Errorf("a cost without the time off the CPU is %s", found.Based)
	}
	near(t, "least cost", found.Cost.Rate, 0.05)
	f.InKernel.Sampled.CopiedUp, f.InKernel.Copied = 0, f.InKernel.Copied[:1]
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("a small file is blamed: %+v", found)
	}
}

func TestSeccompAtItsRate(t *testing.T) {
	f := hot()
	f.InKernel.Filtered = true
	f.InKernel.Sampled = Sampled{All: 8000, CPU: 8 * time.Second, Seccomp: 800}
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Kind != Seccomp || found.Based != Measured || !strings.Contains(found.Says, "100000 system calls/s") {
		t.Errorf("%s, %s: %s", found.ID, found.Based, found.Says)
	}
	near(t, "cost", found.Cost.Rate, 0.1)
	near(t, "each", found.Cost.Each.Seconds(), 1e-6)
	f.InKernel.Sampled.Seccomp = 60
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("a filter that hardly runs is blamed: %+v", found)
	}
	f.InKernel.Sampled.Seccomp, f.InKernel.Filtered = 800, false // others trace its calls
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("a filter that is not there is blamed: %+v", found)
	}
}

func TestPacketsThroughABridge(t *testing.T) {
	f := &Facts{
		Container: container.Container{Name: "web", Engine: container.Docker, Kept: container.Kept{Addresses: []string{"172.17.0.2"}}},
		Span:      10 * time.Second, Used: Counts{Packets: 500_000}, InKernel: InKernel{OwnNet: true},
	}
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Kind != Translation || found.Based != Estimated {
		t.Errorf("%s, %s", found.ID, found.Based)
	}
	near(t, "cost", found.Cost.Rate, 0.2)
	near(t, "events", found.Cost.Events, 50_000)
	f.Engine.Proxy = 3 * time.Second
	if found := one(t, Diagnose(quietHost, []*Facts{f})); found.Kind != Proxy {
		t.Errorf("%s, want the proxy alone", found.ID)
	}
	f.Engine.Proxy, f.Used.Packets = 0, 20_000
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("2000 packets/s are blamed: %+v", found)
	}
}

func TestTheMountOfAPath(t *testing.T) {
	mounts := []procfs.Mount{{Point: "/", FSType: "overlay"}, {Point: "/vol"}, {Point: "/vol/deep"}, {Point: "/proc"}}
	for name, want := range map[string]string{"/": "/", "/data/x": "/", "/volume": "/", "/vol": "/vol", "/vol/x": "/vol", "/vol/deep/x": "/vol/deep"} {
		if got, ok := mountOf(mounts, name); !ok || got.Point != want {
			t.Errorf("%s lies on %s, want %s", name, got.Point, want)
		}
	}
}

// Where a user mounted the root, in a user namespace, the paths of its layers are the user's to choose.
func TestLayersThatAUserMountedAreNotLookedInto(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces of its own need root")
	}
	dir := t.TempDir()
	script := `mkdir -p a b root && for d in bin lib lib64 usr; do if [ -e /$d ]; then mkdir -p a/$d; fi; done &&
		mount -t overlay -o lowerdir=$PWD/a:$PWD/b overlay root &&
		for d in root/*; do mount --rbind ${d#root} $d || exit; done &&
		exec chroot root sh -c 'echo ready; read end'`
	for name, c := range map[string]struct {
		flags    []string
		hasLayer bool
	}{
		"root's":   {[]string{"--mount"}, true},
		"a user's": {[]string{"--mount", "--user", "--map-root-user"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("unshare", append(c.flags, "sh", "-c", script)...)
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Skip(err)
			}
			defer func() { _, _ = in.Close(), cmd.Wait() }()
			if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Skipf("an overlay cannot be mounted here: %q", line)
			}
			if k := inKernelOf(container.Container{PID: cmd.Process.Pid}); k.HasLayer != c.hasLayer || (len(k.Layers.Lower) > 0) != c.hasLayer {
				t.Errorf("its layers are %+v", k.Layers)
			}
		})
	}
}
