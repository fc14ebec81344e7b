package record

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What a test must do in a process of its own (be killed, be another user,
// fill a disk) it does by running this binary again with a part to play.
const partVariable = "TARE_RECORD_TEST_PART"

func TestMain(m *testing.M) {
	if name := os.Getenv(partVariable); name != "" {
		if err := parts[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var parts = map[string]func(path string) error{
	"die in mid-trial":          dieInMidTrial,
	"die in mid-transaction":    dieInMidTransaction,
	"die with the store closed": dieWithTheStoreClosed,
	"make a store":              makeStore,
	"read":                      readAll,
	"fill the disk":             fillTheDisk,
}

// play starts this test binary in a part; binary is its path, or empty for
// where it lies.
func play(t *testing.T, part, binary, path string) *exec.Cmd {
	t.Helper()
	if binary == "" {
		var err error
		binary, err = os.Executable()
		must(t, err)
	}
	cmd := exec.Command(binary, path)
	cmd.Env = append(os.Environ(), partVariable+"="+part)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return cmd
}

// killed plays a part until it prints a line, then kills it.
func killed(t *testing.T, part, path string) {
	t.Helper()
	cmd := play(t, part, "", path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(line, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it ended by itself")
	}
}

func dieInMidTrial(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	id, err := s.BeginTrial("weigh-1", Trial{Condition: "redis@bare", Block: 2, Attempt: 1, Started: epoch.Add(time.Hour)})
	if err != nil {
		return err
	}
	if err := s.AddSamples(id, []Sample{{"get", 1}, {"get", 2}}); err != nil {
		return err
	}
	fmt.Println("now")
	select {}
}

func dieInMidTransaction(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	// With hardly a page of cache the transaction reaches the file before it commits.
	if _, err := s.db.Exec("PRAGMA cache_size = 1"); err != nil {
		return err
	}
	return s.change("", func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE samples SET value = -1; UPDATE runs SET reason = hex(zeroblob(20000))")
		if err != nil {
			return err
		}
		fmt.Println("now")
		select {}
	})
}

func makeStore(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	if err := s.Begin(example("weigh-1")); err != nil {
		return err
	}
	if _, err := s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch, Samples: []Sample{{"get", 1}}}); err != nil {
		return err
	}
	return s.Close()
}

func readAll(path string) error {
	s, err := OpenReadOnly(path)
	if err != nil {
		return err
	}
	defer s.Close()
	run, err := s.Run(Latest)
	if err == nil {
		fmt.Println(len(run.Trials))
	}
	return err
}

func fillTheDisk(dir string) error {
	// The mount is in a mount namespace of this process alone and goes with it.
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount: %s: %w", out, err)
	}
	s, err := Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	if err := s.Begin(example("weigh-1")); err != nil {
		return err
	}
	if err := untilFull(s); err != nil {
		return err
	}
	// Now not even a journal has room.
	junk, err := os.Create(filepath.Join(dir, "junk"))
	if err != nil {
		return err
	}
	defer junk.Close()
	for err == nil {
		_, err = junk.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	_, err = s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch})
	if _, ok := errors.AsType[*DiskFull](err); !ok {
		return fmt.Errorf("with no byte left: %T %w", err, err)
	}
	return nil
}

// untilFull adds trials until the disk is full, and checks what then holds.
func untilFull(s *Store) error {
	samples := make([]Sample, 500)
	for i := range samples {
		samples[i] = Sample{"get", float64(i)}
	}
	for kept := 0; ; kept++ {
		if kept == 10_000 {
			return errors.New("it never became full")
		}
		_, err := s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: kept, Attempt: 1, Started: epoch, Samples: samples})
		if err == nil {
			continue
		}
		full, ok := errors.AsType[*DiskFull](err)
		if !ok || full.Path != s.Path() || !strings.Contains(err.Error(), "the disk that holds "+s.Path()+" is full") || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("after %d trials: %T %w", kept, err, err)
		}
		if kept == 0 {
			return errors.New("nothing was kept")
		}
		run, err := s.Run("weigh-1")
		if err != nil {
			return fmt.Errorf("what was committed cannot be read: %w", err)
		}
		if len(run.Trials) != kept || len(run.Trials[kept-1].Samples) != len(samples) {
			return fmt.Errorf("%d trials of %d remain", len(run.Trials), kept)
		}
		return nil
	}
}

func TestAFullDisk(t *testing.T) {
	t.Run("by a limit of the file", func(t *testing.T) {
		s := open(t)
		must(t, s.Begin(example("weigh-1")))
		_, err := s.db.Exec("PRAGMA max_page_count = 100")
		must(t, err)
		must(t, untilFull(s))
	})
	t.Run("in earnest", func(t *testing.T) {
		needRoot(t, "to mount a small file system")
		cmd := play(t, "fill the disk", "", t.TempDir())
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // makes mounts private, which CLONE_NEWNS does not
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Error(string(out), err)
		}
	})
}

func TestKilledInMidTrial(t *testing.T) {
	s := open(t)
	must(t, s.Begin(example("weigh-1")))
	mustTrial(t, s, "weigh-1", exampleTrial(t, "redis@bare", 1))
	killed(t, "die in mid-trial", s.Path())
	run, err := s.Run("weigh-1")
	must(t, err)
	if len(run.Trials) != 2 {
		t.Fatalf("%d trials, want 2", len(run.Trials))
	}
	if cut := run.Trials[1]; cut.Error != NotEnded || len(cut.Samples) != 2 {
		t.Errorf("the trial that was cut off: error %q, samples %v", cut.Error, cut.Samples)
	}
}

func TestKilledInMidTransaction(t *testing.T) {
	s := open(t)
	must(t, s.Begin(example("weigh-1")))
	for block := range 20 {
		trial := exampleTrial(t, "redis@bare", block)
		trial.Samples = make([]Sample, 500)
		mustTrial(t, s, "weigh-1", trial)
	}
	killed(t, "die in mid-transaction", s.Path())

	// A reader that may not write cannot roll back; it must say so.
	_, err := OpenReadOnly(s.Path())
	if _, ok := errors.AsType[*Unsettled](err); !ok || !strings.Contains(err.Error(), "tare runs") {
		t.Errorf("a reader before: %v", err)
	}
	healed, err := Open(s.Path())
	must(t, err)
	must(t, healed.Close())
	reader, err := OpenReadOnly(s.Path())
	must(t, err)
	defer reader.Close()
	run, err := reader.Run("weigh-1")
	must(t, err)
	if run.Trials[0].Samples[0].Value != 0 || run.Reason != "as planned" {
		t.Error("half of a transaction is in the store")
	}
}

func TestReadingWhileAnotherWrites(t *testing.T) {
	writer := open(t)
	must(t, writer.Begin(example("weigh-1")))
	reader, err := OpenReadOnly(writer.Path())
	must(t, err)
	defer reader.Close()

	const trials = 30
	var wait sync.WaitGroup
	started := make(chan struct{})
	wait.Go(func() {
		for block := range trials {
			if _, err := writer.AddTrial("weigh-1", exampleTrial(t, "redis@bare", block)); err != nil {
				t.Error(err)
			}
			if block == 0 {
				close(started)
			}
		}
	})
	<-started
	for seen := 0; seen < trials && !t.Failed(); {
		run, err := reader.Run("weigh-1")
		must(t, err)
		if len(run.Trials) < seen {
			t.Errorf("%d trials, %d before", len(run.Trials), seen)
		}
		seen = len(run.Trials)
		for _, trial := range run.Trials {
			if len(trial.Samples) != 3 || len(trial.Histograms) != 1 {
				t.Errorf("half of a trial was seen: %d samples, %d histograms", len(trial.Samples), len(trial.Histograms))
			}
		}
	}
	wait.Wait()
}

func TestAnotherUserReads(t *testing.T) {
	needRoot(t, "to become another user")
	dir, binary := forAnotherUser(t)

	// Under a mask that would keep others out.
	path := filepath.Join(dir, "state", "runs.db")
	maker := play(t, "make a store", "", path)
	maker.Args = append([]string{"sh", "-c", `umask 077; exec "$0" "$@"`, maker.Path}, maker.Args[1:]...)
	shell, err := exec.LookPath("sh")
	must(t, err)
	maker.Path = shell
	if out, err := maker.CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}

	nobody := play(t, "read", binary, path)
	nobody.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, err := nobody.Output()
	if err != nil || string(out) != "1\n" {
		t.Errorf("nobody reads %q, %v", out, err)
	}

	must(t, os.Chmod(path, 0o600))
	nobody = play(t, "read", binary, path)
	nobody.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, err = nobody.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot be read by this user") {
		t.Errorf("of a private store nobody reads %q, %v", out, err)
	}
}

func TestADamagedStore(t *testing.T) {
	whole := open(t)
	must(t, whole.Begin(example("weigh-1")))
	for block := range 20 {
		mustTrial(t, whole, "weigh-1", exampleTrial(t, "redis@bare", block))
	}
	good, err := os.ReadFile(whole.Path())
	must(t, err)

	// open and read all that there is, in both ways.
	attempt := func(path string) error {
		for _, open := range []func(string) (*Store, error){OpenReadOnly, Open} {
			s, err := open(path)
			if err == nil {
				_, err = s.Run("weigh-1")
				s.Close()
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	write := func(t *testing.T, data []byte) string {
		path := filepath.Join(t.TempDir(), "runs.db")
		must(t, os.WriteFile(path, data, 0o644))
		return path
	}
	wantDamaged := func(t *testing.T, err error) {
		t.Helper()
		damaged, ok := errors.AsType[*Damaged](err)
		if !ok || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %T %v, want one line of a *Damaged", err, err)
		} else if damaged.What == "" {
			t.Error("it does not say what is wrong")
		}
	}

	t.Run("truncated", func(t *testing.T) {
		for _, n := range []int{1, 16, 99, 100, 4095, 4096, 4097, len(good) / 2, len(good) - 4096, len(good) - 1} {
			wantDamaged(t, attempt(write(t, good[:n])))
		}
	})
	t.Run("empty", func(t *testing.T) {
		_, err := OpenReadOnly(write(t, nil))
		wantDamaged(t, err)
	})
	t.Run("something else", func(t *testing.T) {
		wantDamaged(t, attempt(write(t, []byte(strings.Repeat("not a database at all\n", 1000)))))
	})
	t.Run("a directory", func(t *testing.T) {
		_, err := OpenReadOnly(t.TempDir())
		wantDamaged(t, err)
	})
	t.Run("a column that does not parse", func(t *testing.T) {
		path := write(t, good)
		db := raw(t, path)
		_, err := db.Exec(`UPDATE conditions SET setting_json = '{"cpus": "many"}' WHERE platform = 'bare'`)
		must(t, err)
		err = attempt(path)
		if err == nil || !strings.Contains(err.Error(), `condition "redis@bare"`) || !strings.Contains(err.Error(), "cpus=many") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("pages overwritten", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		refused := 0
		for range 60 {
			data := append([]byte(nil), good...)
			at := random.IntN(len(data) - 512)
			for i := range 512 {
				data[at+i] = byte(random.Uint32())
			}
			// A page that nothing points to may be hurt without harm, and a
			// value may be changed unseen; but what is said is said in one line.
			if err := attempt(write(t, data)); err != nil {
				refused++
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("at %d: more than a line: %v", at, err)
				}
			}
		}
		if refused == 0 {
			t.Error("no damage was noticed")
		}
	})
}

// A user goes on writing a store of his own that root has written.
func TestRootWritesAUsersStore(t *testing.T) {
	needRoot(t, "to become another user")
	dir, binary := forAnotherUser(t)
	own := filepath.Join(dir, "own")
	must(t, errors.Join(os.Mkdir(own, 0o755), os.Chown(own, 65534, 65534)))
	path := filepath.Join(own, "runs.db")
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Chown(path, 65534, 65534))
	s, err := Open(path)
	must(t, err)
	must(t, s.Close())
	nobody := play(t, "make a store", binary, path)
	nobody.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	if out, err := nobody.CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	// A file that somebody has made a lock by a link is not given away.
	must(t, os.Remove(path+lockSuffix))
	precious := filepath.Join(dir, "precious")
	must(t, os.WriteFile(precious, nil, 0o600))
	must(t, os.Link(precious, path+lockSuffix))
	s, err = Open(path)
	must(t, err)
	must(t, s.Close())
	if info, err := os.Stat(precious); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("it was given away: %v", err)
	}
}

func TestAUserWhoMayNotWrite(t *testing.T) {
	needRoot(t, "to become another user")
	dir, binary := forAnotherUser(t)
	path := filepath.Join(dir, "runs.db")
	s, err := Open(path)
	must(t, err)
	must(t, s.Close())
	attempt := func(why, path string) {
		t.Helper()
		nobody := play(t, "make a store", binary, path)
		nobody.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		out, err := nobody.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), path+" cannot be written by this user: run as root") {
			t.Errorf("%s: %v, %q", why, err, out)
		}
	}
	attempt("the file is root's", path)
	attempt("the directory is root's", filepath.Join(dir, "new", "runs.db"))
	// The file alone does not do: a transaction needs a journal beside it.
	must(t, os.Chmod(path, 0o666))
	attempt("no place for a journal", path)
}

func TestAnotherProcessHoldsTheStore(t *testing.T) {
	s := open(t)
	must(t, s.Begin(example("weigh-1")))
	other := raw(t, s.Path())
	_, err := other.Exec("BEGIN EXCLUSIVE")
	must(t, err)
	_, err = s.db.Exec("PRAGMA busy_timeout = 0") // no patience
	must(t, err)
	_, err = s.AddTrial("weigh-1", exampleTrial(t, "redis@bare", 1))
	if _, ok := errors.AsType[*Busy](err); !ok || !strings.Contains(err.Error(), "held by another process") {
		t.Errorf("got %v", err)
	}
	_, err = other.Exec("ROLLBACK")
	must(t, err)
	mustTrial(t, s, "weigh-1", exampleTrial(t, "redis@bare", 1))
}

// forAnotherUser gives a directory that any user may enter, with this test
// binary in it: where go test puts both only root may look.
func forAnotherUser(t *testing.T) (dir, binary string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-record")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	binary = filepath.Join(dir, "record.test")
	must(t, copyFile(binary, self))
	return dir, binary
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root " + why)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
