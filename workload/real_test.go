package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/socket"
)

// realImage is a recipe's image from the store that the tests share. It skips
// where the host cannot make it.
func realImage(t *testing.T, recipe string) image.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("makes an image: not in short mode")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to change into an image's root")
	}
	store, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Recipe(t.Context(), recipe)
	if missing := (*image.Missing)(nil); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// realTrial runs a workload's program and load program by changing into its
// image's root, and nothing more: platforms are tested elsewhere.
type realTrial struct {
	trial
	root           string
	pid            int          // as the host has it
	end            func()       // kills the program, and waits for it
	stdout, stderr bytes.Buffer // complete once the program has ended
}

func (t *realTrial) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: t.root}
	return cmd
}

// maps tells whether the program has a file mapped.
func (t *realTrial) maps(tt *testing.T, file string) bool {
	tt.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", t.pid))
	if err != nil {
		tt.Fatal(err)
	}
	return bytes.Contains(text, []byte(file+"\n"))
}

func (t *realTrial) Output() (stdout, stderr []byte) {
	select {
	case <-t.ended:
		return t.stdout.Bytes(), t.stderr.Bytes()
	default:
		return nil, nil
	}
}

// launch starts the program; it is killed, and waited for, when the test ends.
// Namespaces are clone flags.
func launch(t *testing.T, w Workload, p Params, img image.Image, edit func(args []string), namespaces uintptr) *realTrial {
	t.Helper()
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	edit(program.Args)
	tr := &realTrial{root: img.Root}
	tr.params, tr.ended = p, make(chan struct{})
	tr.generate = func(ctx context.Context, args []string) ([]byte, error) {
		out, err := tr.command(ctx, args).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, tail(exit.Stderr))
		}
		return out, err
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := tr.command(ctx, program.Args)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Cloneflags = namespaces
	cmd.Stdout, cmd.Stderr = &tr.stdout, &tr.stderr
	started := make(chan error, 1)
	go func() {
		// The signal above comes when the thread ends, not the process.
		runtime.LockOSThread()
		began := time.Now()
		started <- cmd.Start()
		if cmd.Process == nil {
			return
		}
		_ = cmd.Wait() // its state says how it ended
		tr.exit = Exit{Code: cmd.ProcessState.ExitCode(), Elapsed: time.Since(began),
			CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
		close(tr.ended)
	}()
	if err := <-started; err != nil {
		stop()
		t.Fatal(err)
	}
	tr.pid = cmd.Process.Pid
	tr.end = func() { stop(); <-tr.ended }
	t.Cleanup(tr.end)
	return tr
}

var (
	portsLock  sync.Mutex
	portsDrawn = map[int]bool{}
)

// freePort is a port that nobody on this host uses at the moment, and no other test of this
// process: a service may take those after it for itself, as many as a place has.
func freePort(t *testing.T) string {
	t.Helper()
	portsLock.Lock()
	defer portsLock.Unlock()
	port := socket.DrawPorts(PlacePorts, rand.IntN, func(port int) bool {
		return !portsDrawn[port] && socket.PortFree(port)
	})
	if port == 0 {
		t.Fatal("no port is free")
	}
	portsDrawn[port] = true
	return strconv.Itoa(port)
}

func TestRealRedis(t *testing.T) {
	t.Parallel()
	img := realImage(t, "redis")
	w := redis{}
	p := resolve(t, w, "commands", "get,set,mset,hset,lrange_100,incr,sadd,zadd,lpush,rpush,ping_inline,ping_mbulk,lrange_300,lrange_500,lrange_600",
		"requests", "2000", "keyspace", "500", "payload", "100", "pipeline", "5")
	port := freePort(t)
	tr := launch(t, w, p, img, func(args []string) { args[slices.Index(args, "6379")] = port }, 0)
	tr.address = "127.0.0.1:" + port
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, &tr.trial)
	for name, h := range tr.histograms {
		if h.TotalCount() != 2000 {
			t.Errorf("%s: %d latencies, want 2000", name, h.TotalCount())
		}
	}
}

// A redis that cannot bind must not be taken for the one that answers.
func TestRealRedisPortTaken(t *testing.T) {
	img := realImage(t, "redis")
	w := redis{}
	p := resolve(t, w, "commands", "get")
	port := freePort(t)
	first := launch(t, w, p, img, func(args []string) { args[slices.Index(args, "6379")] = port }, 0)
	first.address = "127.0.0.1:" + port
	err := awaitReady(t.Context(), readyWithin, "the first redis answers", func(ctx context.Context) error {
		return pingRedis(ctx, first.address)
	})
	if err != nil {
		t.Fatal(err)
	}
	second := launch(t, w, p, img, func(args []string) { args[slices.Index(args, "6379")] = port }, 0)
	second.address = first.address
	refusedAs[*Ended](t, w.Drive(t.Context(), second), "ended by itself", "in use")
}

func TestRealStream(t *testing.T) {
	img := realImage(t, "stream")
	w := stream{}
	p := resolve(t, w, "elements", "100000", "repetitions", "3", "threads", "1")
	tr := launch(t, w, p, img, func([]string) {}, 0)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, &tr.trial)
}
