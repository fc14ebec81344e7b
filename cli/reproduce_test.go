package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/reproduction"
	"tare/terminal"
)

// twoCPUs is a host whose platforms are all there; none is used, and no guest booted to choose
// an engine of machines.
func twoCPUs(t *testing.T) studyHost {
	t.Helper()
	platforms := lab.Remover(t.TempDir())
	return studyHost{dir: t.TempDir(), online: 2, Host: kit.Host{
		CPUs: []int{0, 1}, Memory: 16 << 30,
		Platform: func(name string) (platform.Platform, error) {
			return platforms(strings.Replace(name, "vm/", "vm:tcg/", 1))
		},
		Check: func(platform.Platform) error { return nil },
	}}
}

// Every claim has a run, or its host is named, and the short plan is as short as its flag says.
func TestShortPlanOnTwoCPUs(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(home, "annexd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	design := (&app{}).designer(t.Context(), twoCPUs(t))
	for _, extent := range []reproduction.Extent{reproduction.Quick, reproduction.Usual, reproduction.Full} {
		p := reproduction.NewPlan(claim.All(), extent, claim.Abilities{CPUs: 2}, false, design)
		for _, l := range p.Left {
			if !strings.HasPrefix(l.Why, "needs a host ") && (l.Claims[0].ID != "S1.8" || !strings.Contains(l.Why, "--disruptive")) {
				t.Errorf("%v: %s", l.Claims[0].ID, l.Why)
			}
		}
		planned, takes := 0, time.Duration(0)
		for _, r := range p.Runs {
			planned += len(r.Claims)
			takes += r.Takes
		}
		if want := len(claim.All()) - 8; planned != want { // S1.8, S1.10, S1.13 to S1.15, S2.6, S2.7 and S2.9b
			t.Errorf("extent %d: %d claims have a run, want %d", extent, planned, want)
		}
		most := map[reproduction.Extent]time.Duration{reproduction.Quick: 45 * time.Minute, reproduction.Usual: 9 * time.Hour}[extent]
		if most > 0 && takes > most {
			t.Errorf("extent %d takes %v, at most %v", extent, takes, most)
		}
	}
}

// reproduced is `tare reproduce` of some claims on a bench of the test's: measure is called in the
// place of each run's command. A run that it leaves without error is in the store.
func reproduced(
	t *testing.T,
	home string,
	f *reproduceFlags,
	ids []string,
	measure func(ctx context.Context, id int) error,
) (screen string, measured []string, left map[string]string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	a := &app{out: terminal.To(&out), err: terminal.To(&out), home: home}
	claims, _, err := chosenClaims(ids)
	if err != nil {
		t.Fatal(err)
	}
	r := a.reproducing(f, home, reproduction.Quick, claims)
	plan := reproduction.NewPlan(claims, r.extent, r.on, false, a.designer(ctx, twoCPUs(t)))
	r.measure = func(_ context.Context, run reproduction.Run, _ reproduction.State) error {
		measured = append(measured, strings.Join(run.Command[1:3], " "))
		if err := measure(ctx, len(measured)); err != nil {
			if errors.Is(err, lab.ErrStopped) {
				cancel()
			}
			return err
		}
		store, err := record.Open(filepath.Join(home, storeFile))
		if err != nil {
			return err
		}
		defer store.Close()
		id := fmt.Sprintf("%s-%d", run.Study, time.Now().UnixNano())
		err = store.Begin(record.Run{
			ID: id, Study: run.Study, Started: time.Now(), Host: r.here, Version: versionText(), Command: run.Command,
			Plan: record.Plan{Code: lab.Code}, Conditions: run.Conditions,
		})
		for _, c := range run.Conditions {
			for block := 1; block <= 3; block++ {
				trial := record.Trial{Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Started: time.Now()}
				_, added := store.AddTrial(id, trial)
				err = errors.Join(err, added)
			}
		}
		return errors.Join(err, store.Finish(id, record.Complete, "as planned"))
	}
	err = r.carryOut(ctx, plan)
	// A command line that is made anew sets the state directory of its own app back.
	if perr := r.present((&app{out: a.out, err: a.err}).root()); perr != nil {
		t.Fatal(perr)
	}
	return out.String(), measured, r.left, err
}

func TestReproduceGoesOnWhereItEnded(t *testing.T) {
	home := t.TempDir()
	ids := []string{"S4.1", "S4.4", "S4.5", "S5.1"}
	failing := func(_ context.Context, n int) error {
		switch n {
		case 2:
			return errors.New("the engine is gone")
		case 3:
			return lab.ErrStopped
		}
		return nil
	}
	screen, measured, left, err := reproduced(t, home, &reproduceFlags{}, ids, failing)
	if want := []string{"latency cpu", "latency network", "latency files"}; !slices.Equal(measured, want) {
		t.Errorf("measured %q, want %q", measured, want)
	}
	if !errors.Is(err, lab.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
	want := map[string]string{
		"S4.4": "failed: the engine is gone",
		"S4.5": "stopped while it ran; the same command goes on",
		"S5.1": "stopped before it; the same command goes on",
	}
	for id, why := range want {
		if left[id] != why {
			t.Errorf("%s: %q, want %q", id, left[id], why)
		}
	}
	if !strings.Contains(screen, "the engine is gone") || !strings.Contains(screen, "Of 4 published claims") {
		t.Errorf("no table of what there is:\n%s", screen)
	}
	if page, err := os.ReadFile(filepath.Join(home, "reports", "reproduce.html")); err != nil || !bytes.Contains(page, []byte("chapter-2")) {
		t.Errorf("no page: %v", err)
	}
	well := func(context.Context, int) error { return nil }
	_, measured, left, err = reproduced(t, home, &reproduceFlags{}, ids, well)
	if want := []string{"latency network", "latency files", "io stream"}; !slices.Equal(measured, want) || err != nil || len(left) > 0 {
		t.Errorf("the second time: measured %q, want %q; left %v, %v", measured, want, left, err)
	}
	if _, measured, _, err = reproduced(t, home, &reproduceFlags{}, ids, well); len(measured) > 0 || err != nil {
		t.Errorf("the third time: measured %q, %v", measured, err)
	}
}

func TestReproduceKeepsToItsBudget(t *testing.T) {
	_, measured, left, err := reproduced(
		t, t.TempDir(), &reproduceFlags{budget: 90 * time.Second}, []string{"S4.1", "S5.1"},
		func(context.Context, int) error { return nil },
	)
	if !slices.Equal(measured, []string{"io stream"}) || err != nil || !strings.Contains(left["S4.1"], "--budget") {
		t.Errorf("measured %q, left %v, %v", measured, left, err)
	}
}

func TestReproduceDryRun(t *testing.T) {
	home := t.TempDir()
	code, stdout, stderr := tare(t, home, "reproduce", "S4.5", "S5.1", "--quick", "--dry-run")
	if code != exitSuccess || stderr != "" {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, want := range []string{"S4.5: about ", "tare --home " + home + " latency files ", "2 runs for 2 claims, about"} {
		if !strings.Contains(unwrapped(stdout), want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if _, err := os.Stat(filepath.Join(home, storeFile)); err == nil {
		t.Error("a store was made")
	}
	// What the budget has no room for is not announced as a run with a time.
	code, stdout, _ = tare(t, home, "reproduce", "S4.5", "S5.1", "--budget", "1m", "--dry-run")
	if want := "do not fit into --budget"; code != exitSuccess || strings.Count(unwrapped(stdout), want) != 2 {
		t.Errorf("code %d, want %q twice in\n%s", code, want, stdout)
	}
	for _, c := range []struct{ line, says string }{
		{"reproduce S9", `no claim "S9"`},
		{"reproduce --quick --full", "want one of them"},
		{"reproduce --budget 1ms", "--budget 1ms"},
	} {
		code, _, stderr := tare(t, home, strings.Fields(c.line)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("tare %s: code %d: %s", c.line, code, stderr)
		}
	}
}

// A study that fails is reported, by the real command: here no image can be kept.
func TestReproduceReportsWhatFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	home := t.TempDir()
	// No store of images can be opened there.
	if err := os.WriteFile(filepath.Join(home, "images"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := tare(t, home, "reproduce", "S5.1", "--quick", "--json", "-")
	if code == exitHost && strings.Contains(stderr, "another tare is measuring") {
		t.Skip(stderr)
	}
	if code != exitFailure || !strings.Contains(stderr, "1 run failed, as the table says") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var d claim.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Claims) != 1 || d.Claims[0].Verdict != claim.NotYetRun || !strings.HasPrefix(d.Claims[0].Left, "failed: ") {
		t.Errorf("%+v", d.Claims)
	}
}

// Times are written whole: 50 s were 5.
func TestAbout(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 50 * time.Second: "50 s", 1499 * time.Millisecond: "1 s", 45*time.Minute + 20*time.Second: "45 min",
		90 * time.Minute: "1 h 30 min", 10 * time.Hour: "10 h",
	} {
		if got := about(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}
