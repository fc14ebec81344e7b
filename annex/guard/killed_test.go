package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/knob"
	"tare/kernel/process"
)

// A daemon that is killed is this program, started again with orders.

const victimVariable = "TARE_GUARD_TEST_VICTIM"

type victimOrders struct {
	Options    Options
	File, Text string
	Kind       Kind
	Before     string // what it keeps first; none where empty
	While      string // a knob that is set to the same while it makes a momentary change; none where empty
	StopAt     string // the moment at which it tells that it is there, and waits for its end
}

func TestMain(m *testing.M) {
	if code, ours := Main(os.Args); ours {
		os.Exit(code)
	}
	if text := os.Getenv(victimVariable); text != "" {
		if err := victim(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func victim(text string) error {
	var o victimOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	g, err := Start(context.Background(), o.Options)
	if err != nil {
		return err
	}
	fmt.Println(g.PID())
	if o.Before != "" {
		if err := g.Keep(context.Background(), o.File, o.Before); err != nil {
			return err
		}
	}
	stop := func(moment string) {
		if moment == o.StopAt {
			fmt.Println(moment)
			select {}
		}
	}
	if o.While != "" {
		_, err := g.While(context.Background(), o.While, o.Text, func() error {
			g.at = stop
			_, err := g.Momentarily(context.Background(), o.File, o.Text)
			return err
		})
		return errors.Join(err, errors.New("it was not to come so far"))
	}
	g.at = stop
	if o.Kind == Momentary {
		_, err = g.Momentarily(context.Background(), o.File, o.Text)
	} else if err = g.Keep(context.Background(), o.File, o.Text); err == nil {
		g.at("kept")
	}
	return errors.Join(err, errors.New("it was not to come so far"))
}

// daemon is a victim that waits for its end.
type daemon struct {
	command *exec.Cmd
	guard   *process.Handle
}

func start(t *testing.T, o victimOrders) daemon {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), victimVariable+"="+string(text))
	command.Stderr = os.Stderr
	// Its group is its own, as a shell's job is: what is sent to that must not end the guard.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	d := daemon{command: command}
	t.Cleanup(func() { d.kill(t) })
	lines := bufio.NewScanner(out)
	var pid int
	if !lines.Scan() {
		t.Fatal("it said nothing")
	}
	if _, err := fmt.Sscan(lines.Text(), &pid); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if d.guard, err = id.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.guard.Signal(int(syscall.SIGKILL))
		_ = d.guard.Close()
	})
	if !lines.Scan() || lines.Text() != o.StopAt {
		t.Fatalf("it said %q, want %q", lines.Text(), o.StopAt)
	}
	return d
}

// kill ends the daemon and nothing else.
func (d daemon) kill(t *testing.T) {
	t.Helper()
	_ = d.command.Process.Kill()
	_ = d.command.Wait()
}

// awaitGuard waits until the guard process has done its work.
func (d daemon) awaitGuard(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.guard.Await(ctx); err != nil {
		t.Fatal(err)
	}
}

// A group is a directory here: what the kernel makes of a limit is seen in another test.
func group(t testing.TB, name, found string) (o Options, file string) {
	t.Helper()
	root := t.TempDir()
	file = filepath.Join(root, "group", name)
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, file, found)
	return Options{Journal: filepath.Join(t.TempDir(), "run", "journal"), Roots: []string{root}}, file
}

func set(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(file), got, err, want)
	}
}

// noLimit is how version 1 spells it.
const noLimit = "9223372036854771712"

func TestKilled(t *testing.T) {
	const lowered, users = "67108864", "134217728"
	for _, c := range []struct {
		kind   Kind
		stopAt string
		found  string
		user   bool // somebody sets it meanwhile
		want   string
	}{
		{Momentary, "journalled", noLimit, false, noLimit},
		{Momentary, "journalled", noLimit, true, users},
		{Momentary, "written", noLimit, false, noLimit},
		{Momentary, "written", "268435456", false, "268435456"},
		{Momentary, "written", "-1", false, "-1"},
		{Momentary, "written", noLimit, true, users},
		{Momentary, "restored", "268435456", false, "268435456"},
		{Momentary, "restored", "268435456", true, users},
		{Lasting, "journalled", noLimit, false, noLimit},
		{Lasting, "written", noLimit, false, noLimit},
		{Lasting, "kept", "268435456", false, "268435456"},
		{Lasting, "kept", "268435456", true, users},
	} {
		for _, both := range []bool{false, true} {
			name := fmt.Sprintf("%s/%s/%s", c.kind, c.stopAt, c.found)
			if c.user {
				name += "/set meanwhile"
			}
			if both {
				name += "/with its guard"
			}
			t.Run(name, func(t *testing.T) {
				o, file := group(t, limitV1, c.found)
				d := start(t, victimOrders{Options: o, File: file, Text: lowered, Kind: c.kind, StopAt: c.stopAt})
				if c.user {
					set(t, file, users)
				}
				if both {
					if err := d.guard.Signal(int(syscall.SIGKILL)); err != nil {
						t.Fatal(err)
					}
					d.kill(t)
					d.awaitGuard(t)
				} else {
					d.kill(t)
					d.awaitGuard(t)
					holds(t, file, c.want)
				}
				all, err := Recover(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				holds(t, file, c.want)
				if !both && len(all) != 0 {
					t.Errorf("the guard left %v", all)
				}
				if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the journal is still there: %v", err)
				}
			})
		}
	}
}

// Between two values that are kept one after the other, each goes back to what was found.
func TestKilledWhileKeepingSomethingElse(t *testing.T) {
	for _, moment := range []string{"journalled", "written", "kept"} {
		o, file := group(t, "memory.low", "0")
		d := start(t, victimOrders{Options: o, File: file, Text: "8192", Kind: Lasting, Before: "4096", StopAt: moment})
		d.kill(t)
		d.awaitGuard(t)
		holds(t, file, "0")
	}
}

// Of two momentary changes, one within the other, both are taken back.
func TestKilledWithin(t *testing.T) {
	for _, moment := range []string{"journalled", "written", "restored"} {
		for _, both := range []bool{false, true} {
			o, file := group(t, limitV1, noLimit)
			around := filepath.Join(filepath.Dir(file), "memory.swappiness")
			set(t, around, "60")
			d := start(t, victimOrders{Options: o, File: file, Text: "200", While: around, StopAt: moment})
			holds(t, around, "200")
			if both {
				if err := d.guard.Signal(int(syscall.SIGKILL)); err != nil {
					t.Fatal(err)
				}
			}
			d.kill(t)
			d.awaitGuard(t)
			if all, err := Recover(t.Context(), o); err != nil || !both && len(all) != 0 {
				t.Errorf("killed when it was %s, both: %v; recovered: %v, %v", moment, both, all, err)
			}
			holds(t, file, noLimit)
			holds(t, around, "60")
		}
	}
}

// A group that is gone, and one that was made in its place, are left alone.
func TestKilledAfterTheGroupHasGone(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("again=%t/both=%t", again, both), func(t *testing.T) {
				o, file := group(t, limitV1, noLimit)
				d := start(t, victimOrders{Options: o, File: file, Text: "4096", Kind: Lasting, StopAt: "kept"})
				dir := filepath.Dir(file)
				if err := os.Rename(dir, dir+".removed"); err != nil { // whose number is not free so
					t.Fatal(err)
				}
				if again {
					if err := os.Mkdir(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					set(t, file, "4096") // its own limit, which looks like ours
				}
				if both {
					if err := d.guard.Signal(int(syscall.SIGKILL)); err != nil {
						t.Fatal(err)
					}
				}
				d.kill(t)
				d.awaitGuard(t)
				all, err := Recover(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if again {
					holds(t, file, "4096")
				}
				if both && (len(all) != 1 || all[0].Ending != Gone) {
					t.Errorf("%v", all)
				}
			})
		}
	}
}

// What ends the daemon's process group, politely or not, leaves the guard its work.
func TestTheGuardOutlivesTheDaemonsGroup(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		o, file := group(t, limitV1, noLimit)
		d := start(t, victimOrders{Options: o, File: file, Text: "4096", Kind: Momentary, StopAt: "written"})
		// What systemd sends to a whole control group reaches the guard too, and is not
		// taken.
		if signal != syscall.SIGKILL {
			if err := d.guard.Signal(int(signal)); err != nil {
				t.Fatal(err)
			}
		}
		end, err := os.FindProcess(-d.command.Process.Pid) // its group
		if err != nil {
			t.Fatal(err)
		}
		if err := end.Signal(signal); err != nil {
			t.Skipf("a signal to a group: %v", err)
		}
		_ = d.command.Wait()
		d.awaitGuard(t)
		holds(t, file, noLimit)
	}
}

// What the daemon could not put back the guard process does, as soon as the lease has ended,
// and again where it fails too.
func TestTheGuardPutsBackWhatTheDaemonCouldNot(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	o.Lease = 50 * time.Millisecond
	k, err := knob.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	told, tell := io.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); attend(told, o) }()
	defer func() { _ = tell.Close(); <-ended }()
	for n, refuses := range []bool{false, true} {
		set(t, file, "4096")
		e := Entry{Number: uint64(n + 1), Kind: Momentary, File: file, Identity: k.Identity(), Found: noLimit, Written: "4096"}
		aside := filepath.Dir(file) + ".aside"
		if refuses { // a link is no knob
			if err := errors.Join(os.Rename(file, aside), os.Symlink(aside, file)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tell.Write(text(t, opening(e), line{Number: e.Number, End: Failed})); err != nil {
			t.Fatal(err)
		}
		if refuses {
			time.Sleep(2 * o.Lease) // in which it fails; where that takes longer it fails later, or not
			holds(t, aside, "4096")
			if err := os.Rename(aside, file); err != nil {
				t.Fatal(err)
			}
		}
		awaitText(t, file, noLimit)
	}
}

// A daemon that is stopped keeps no limit low, nor anything that was set for as long.
func TestAStoppedDaemonsLeaseEnds(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	around := filepath.Join(filepath.Dir(file), "memory.swappiness")
	set(t, around, "60")
	o.Lease = 10 * time.Millisecond
	d := start(t, victimOrders{Options: o, File: file, Text: "200", While: around, StopAt: "written"})
	if err := d.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitText(t, file, noLimit)
	awaitText(t, around, "60")
}

// awaitText waits until a file holds something.
func awaitText(t *testing.T, file, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // a file makes no event here
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s holds %q after a minute", filepath.Base(file), text)
		}
	}
}

// Two daemons do not change the same host's knobs, nor does one recover under another.
func TestOneDaemonHasTheJournal(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	d := start(t, victimOrders{Options: o, File: file, Text: "4096", Kind: Lasting, StopAt: "kept"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	inUse := new(InUse)
	if _, err := Start(ctx, o); !errors.As(err, &inUse) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := Recover(ctx, o); !errors.As(err, &inUse) {
		t.Errorf("recovering: %v", err)
	}
	holds(t, file, "4096")
	// With its guard still there, stopped, the journal is still taken.
	if err := d.guard.Signal(int(syscall.SIGSTOP)); err != nil {
		t.Fatal(err)
	}
	d.kill(t)
	if _, err := Recover(ctx, o); !errors.As(err, &inUse) {
		t.Errorf("recovering while the guard is there: %v", err)
	}
	if err := d.guard.Signal(int(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), o); err != nil { // waits for the guard
		t.Fatal(err)
	}
	holds(t, file, noLimit)
}

// A journal that nobody has recovered is not begun anew.
func TestStartRefusesWhatIsNotRecovered(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	d := start(t, victimOrders{Options: o, File: file, Text: "4096", Kind: Lasting, StopAt: "kept"})
	if err := d.guard.Signal(int(syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	d.kill(t)
	d.awaitGuard(t)
	unrecovered := new(Unrecovered)
	if _, err := Start(t.Context(), o); !errors.As(err, &unrecovered) || unrecovered.Open != 1 {
		t.Fatalf("%v", err)
	}
	if _, err := Recover(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, file, noLimit)
}
