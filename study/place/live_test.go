package place

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/platform"
	"tare/probe"
)

const programVariable = "TARE_TEST_PLACE"

// TestMain runs the tests, or is one of the programs that they watch: one that
// answers each line after a little work, and one that computes until it is killed.
func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "answer":
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			sum := 0
			for i := range 1_000_000 {
				sum += i
			}
			fmt.Fprint(os.Stdout, line[:len(line)-min(1, sum)], "\n")
		}
	case "compute":
		fmt.Println("ready")
		for n := uint64(0); ; n++ {
			if n == 1<<63 {
				fmt.Println(n)
			}
		}
	}
	os.Exit(m.Run())
}

// pair is two control groups of the test's own: one answers, one computes.
type pair struct {
	layout            cgroup.Layout
	answers, computes cgroup.Group
	containers        []container.Container
}

// begin starts the pair, each on those CPUs.
func begin(t *testing.T, answersOn, computesOn string) *pair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	host, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	p := &pair{}
	for _, h := range host.Hierarchies {
		if h.Has("cpu") || h.Has("cpuset") || h.Has("memory") {
			p.layout.Hierarchies = append(p.layout.Hierarchies, h)
		}
	}
	top := p.layout.At(fmt.Sprintf("tare-place-%d", os.Getpid()))
	p.answers, p.computes = top.Child("web"), top.Child("batch")
	t.Cleanup(func() {
		if err := errors.Join(top.Kill(context.Background()), top.Remove(context.Background())); err != nil {
			t.Error(err)
		}
	})
	// Both go before whatever else this host may be doing, so that it is the one that
	// computes that is waited for; and that one has so large a part of the CPU, as
	// S4.3's had, that what is left is less than the other wants.
	for g, limits := range map[*cgroup.Group]cgroup.Limits{&top: {Shares: 65536}, &p.answers: {CPUs: answersOn, Shares: 1024}, &p.computes: {CPUs: computesOn, Shares: 8192}} {
		if err := g.Create("cpu", "cpuset", "memory"); err != nil {
			t.Skip(err)
		}
		if err := g.Apply(limits); err != nil {
			t.Skip(err)
		}
	}
	in, out := p.start(t, "answer", p.answers)
	_, ready := p.start(t, "compute", p.computes)
	if _, err := ready.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	// Requests come one by one, with a pause between.
	ended := make(chan struct{})
	var asking sync.WaitGroup
	ticker := time.NewTicker(2 * time.Millisecond)
	asking.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			if _, err := io.WriteString(in, "x\n"); err != nil {
				return
			}
			if _, err := out.ReadString('\n'); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		ticker.Stop()
		close(ended)
		_ = in.Close()
		asking.Wait()
	})
	finder := container.Open(container.Options{Docker: []string{}, Containerd: []string{}})
	if p.containers, err = finder.FindEach(t.Context(), []string{p.answers.String(), p.computes.String()}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pair) start(t *testing.T, name string, g cgroup.Group) (io.WriteCloser, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `for f; do echo $$ > "$f" || exit 1; done; exec "$0"`, os.Args[0]}, g.ProcessFiles()...)...)
	cmd.Env = append(os.Environ(), programVariable+"="+name, "GOMAXPROCS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return in, bufio.NewReader(out)
}

func (p *pair) watch(t *testing.T, span time.Duration, thresholds Thresholds) *Watched {
	t.Helper()
	w, err := Watch(t.Context(), p.containers, span, thresholds, nil)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range w.Subjects {
		t.Logf("%s: %s (%s); %+v; behind %v; CPUs %v of %v, bound %q, shares %d", s.Container.Name, s.Behaviour, s.Why, s.Evidence, s.Behind, s.CPUs, s.Above, s.Bound, s.Shares)
	}
	return w
}

// twoCPUs skips where there are not two CPUs to separate by.
func twoCPUs(t *testing.T) {
	t.Helper()
	online, err := platform.ParseCPUList(host.ReadTopology("/").Online)
	if err != nil || len(online) < 2 || online[0] != 0 || online[1] != 1 {
		t.Skipf("CPUs %v are online (%v): this needs CPUs 0 and 1", online, err)
	}
}

func cpusOf(t *testing.T, g cgroup.Group) string {
	t.Helper()
	cpus, err := g.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// sensitive are thresholds by which the pair suffers on any kernel: how long an
// answer waits behind a computation is the kernel's affair.
func sensitive() Thresholds {
	t := Defaults()
	t.Wait, t.WaitShare = 20*time.Microsecond, 0.05
	return t
}

// S4.3's pair on one CPU is separated, waits less, and can be given back.
func TestPairOnOneCPUIsSeparated(t *testing.T) {
	twoCPUs(t)
	p := begin(t, "0", "0")
	began := now(t)
	w := p.watch(t, 2*time.Second, sensitive())
	others := began.foreign(t, w.Subjects[0].Evidence.Share+w.Subjects[1].Evidence.Share)
	t.Logf("others have taken %.2f of two CPUs", others)
	proposal, err := w.Propose()
	if err != nil {
		t.Fatal(err)
	}
	got := [2]Behaviour{w.Subjects[0].Behaviour, w.Subjects[1].Behaviour}
	if got != [2]Behaviour{Critical, CPUBound} || len(proposal.Actions) != 1 || proposal.Actions[0].Kind != Separate {
		if others > tooBusy {
			t.Skipf("the pair behaves %v, with %.2f of two CPUs taken by others, of which that may come", got, others)
		}
		t.Fatalf("the pair behaves %v, proposed %+v", got, proposal)
	}
	if cpus := cpusOf(t, p.answers) + cpusOf(t, p.computes); cpus != "00" {
		t.Fatalf("watching and proposing has set the CPUs to %s", cpus)
	}
	t.Log(proposal.Actions[0].Says, "-", proposal.Actions[0].Reason)
	dir := t.TempDir()
	journal := OpenJournal(dir)
	began = now(t)
	applied, err := Apply(t.Context(), w, proposal, ApplyOptions{Pairs: 8, Window: 500 * time.Millisecond, Settle: 50 * time.Millisecond, Seed: 1, Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	trial := applied.Trials[0]
	t.Logf("%+v", trial.Judged)
	var behind [2]time.Duration
	var took float64
	for _, window := range trial.Windows {
		if window.With {
			behind[1] += window.Behind
		} else {
			behind[0] += window.Behind
		}
		took += (window.Critical + window.Others) / float64(len(trial.Windows))
	}
	others = began.foreign(t, took)
	t.Logf("behind the neighbour: %v without and %v with; others have taken %.2f of two CPUs", behind[0], behind[1], others)
	open, err := journal.Open()
	if err != nil {
		t.Fatal(err)
	}
	_, kept := applied.Kept()
	if separate := cpusOf(t, p.answers) == "1" && cpusOf(t, p.computes) == "0"; separate != kept || kept != (len(open) == 1) {
		t.Errorf("kept: %t; CPUs %s and %s, with %d entries in the journal", kept, cpusOf(t, p.answers), cpusOf(t, p.computes), len(open))
	}
	if behind[1] > behind[0]/5 || trial.Wait.Known() && trial.Wait.Interval.Low > 1 {
		if others > tooBusy {
			t.Skipf("with %.2f of two CPUs taken by others, the waits are no shorter", others)
		}
		t.Errorf("waits behind the neighbour add up to %v with CPUs of its own and %v without, and their p99s are %v and %v ns", behind[1], behind[0], trial.With.Value, trial.Without.Value)
	}
	if !kept {
		if others <= tooBusy && trial.Wait.Known() && trial.Wait.Interval.High < 1 {
			t.Fatalf("the waits are wholly shorter with nobody else there, and it was not kept: %s", trial.Why)
		}
		t.Skipf("with %.2f of two CPUs taken by others, it was not kept: %s", others, trial.Why)
	}
	if !open[0].Kept {
		t.Error("the journal does not say that it was kept")
	}
	done, err := Undo(journal, p.layout, All, false)
	if err != nil || len(done) != 1 || done[0].Err != nil {
		t.Errorf("undone %+v (%v)", done, err)
	}
	if cpus := cpusOf(t, p.answers) + cpusOf(t, p.computes); cpus != "00" {
		t.Errorf("the CPUs are %s afterwards, want them as they were", cpus)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left of the journal (%v)", left, err)
	}
}

func TestPairApartIsHealthy(t *testing.T) {
	twoCPUs(t)
	p := begin(t, "1", "0")
	w := p.watch(t, time.Second, sensitive())
	proposal, err := w.Propose()
	if err != nil {
		t.Fatal(err)
	}
	if !proposal.Healthy() || len(proposal.Actions) > 0 {
		t.Errorf("of a pair with CPUs of their own, proposed %+v", proposal)
	}
}

// Killed in the middle of a trial, tare leaves the journal, and what it changed.
func TestUndoAfterACrash(t *testing.T) {
	twoCPUs(t)
	p := begin(t, "0", "0")
	changes, err := p.answers.ChangeCPUs("1")
	if err != nil {
		t.Fatal(err)
	}
	others, err := p.computes.ChangeShares(2)
	if err != nil {
		t.Fatal(err)
	}
	journal := OpenJournal(t.TempDir())
	kept, err := p.answers.ChangeShares(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(journal.begin([]Entry{{Container: "web", Changes: kept}}), kept.Make(), journal.end(1, true)); err != nil {
		t.Fatal(err)
	}
	if err := journal.begin([]Entry{{Container: "web", Changes: changes}, {Container: "batch", Changes: others}}); err != nil {
		t.Fatal(err)
	}
	if err := changes.Make(); err != nil { // and no further
		t.Fatal(err)
	}
	before, err := p.computes.Shares()
	if err != nil {
		t.Fatal(err)
	}
	dry, err := Undo(journal, p.layout, All, true)
	if err != nil || len(dry) != 3 || cpusOf(t, p.answers) != "1" {
		t.Errorf("asked what it would undo, it says %+v (%v), and the CPUs are %s", dry, err, cpusOf(t, p.answers))
	}
	done, err := Undo(journal, p.layout, Unfinished, false)
	if err != nil || len(done) != 2 {
		t.Errorf("undone %+v (%v)", done, err)
	}
	if shares, err := p.answers.Shares(); shares != 4096 || err != nil {
		t.Errorf("what was left set on purpose is %d shares (%v), want 4096", shares, err)
	}
	if after, err := p.computes.Shares(); cpusOf(t, p.answers) != "0" || after != before || err != nil {
		t.Errorf("CPUs %s and %d shares afterwards (%v), want 0 and %d", cpusOf(t, p.answers), after, err, before)
	}
	for _, want := range []int{1, 0} {
		if again, err := Undo(journal, p.layout, All, false); err != nil || len(again) != want {
			t.Errorf("of the rest undone %+v (%v), want %d", again, err, want)
		}
	}
	if shares, err := p.answers.Shares(); shares != 1024 || err != nil {
		t.Errorf("in the end %d shares (%v), want 1024", shares, err)
	}
}

// A trial that is stopped gives back what it changed.
func TestStoppedTrialGivesBack(t *testing.T) {
	twoCPUs(t)
	p := begin(t, "0", "0")
	w := p.watch(t, 2*time.Second, sensitive())
	proposal, err := w.Propose()
	if err != nil || len(proposal.Actions) == 0 {
		t.Skipf("nothing was proposed (%v)", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	journal := OpenJournal(t.TempDir())
	applied, err := Apply(ctx, w, proposal, ApplyOptions{
		Pairs: 6, Window: 100 * time.Millisecond, Settle: time.Millisecond, Journal: journal,
		Progress: func(line string) {
			if strings.Contains(line, "pair 1 of") {
				cancel()
			}
		},
	})
	if err != nil || !errors.Is(applied.Stopped, ErrStopped) {
		t.Errorf("stopped, it says %+v, %v", applied, err)
	}
	if cpus := cpusOf(t, p.answers) + cpusOf(t, p.computes); cpus != "00" {
		t.Errorf("the CPUs are %s afterwards", cpus)
	}
	if open, err := journal.Open(); err != nil || len(open) > 0 {
		t.Errorf("the journal still holds %+v (%v)", open, err)
	}
}

// What somebody else sets meanwhile ends the trial, and stays.
func TestSomebodyElseSetsTheCPUs(t *testing.T) {
	twoCPUs(t)
	p := begin(t, "0", "0")
	w := p.watch(t, 2*time.Second, sensitive())
	proposal, err := w.Propose()
	if err != nil || len(proposal.Actions) == 0 {
		t.Skipf("nothing was proposed (%v)", err)
	}
	journal := OpenJournal(t.TempDir())
	_, err = Apply(t.Context(), w, proposal, ApplyOptions{
		Pairs: 6, Window: 100 * time.Millisecond, Settle: time.Millisecond, Journal: journal,
		Progress: func(line string) {
			if strings.Contains(line, "pair 1 of") {
				if err := p.answers.Apply(cgroup.Limits{CPUs: "0-1"}); err != nil {
					t.Error(err)
				}
			}
		},
	})
	var foreign *cgroup.Foreign
	if !errors.As(err, &foreign) || foreign.Have != "0-1" {
		t.Errorf("got %v, want that somebody else set 0-1", err)
	}
	if cpus := cpusOf(t, p.answers); cpus != "0-1" {
		t.Errorf("what somebody else set is %s afterwards", cpus)
	}
	if open, err := journal.Open(); err != nil || len(open) > 0 {
		t.Errorf("the journal still holds %+v (%v)", open, err)
	}
}
