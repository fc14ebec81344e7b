package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"tare/kernel/accounting"
	"tare/overhead"
	"tare/record"
	"tare/terminal"
)

// storeFile is that of the state directory.
const storeFile = "tare.db"

// streamEffect is the smallest effect of interest at which rows of stream are to be
// decided: pairs of its processes differ by 8 %.
const streamEffect = 0.05

// weigh carries out `tare weigh` and reads the run from the store. used is the CPU time of
// tare itself, its children's apart.
func (b *bench) weigh(
	ctx context.Context,
	seed int64,
	args ...string,
) (run record.Run, rep overhead.Report, used time.Duration, err error) {
	dir, err := os.MkdirTemp("", "tare-resolution-")
	if err != nil {
		return run, rep, 0, err
	}
	defer os.RemoveAll(dir)
	document := filepath.Join(dir, "run.json")
	cmd := exec.CommandContext(
		ctx,
		b.binary,
		append(
			[]string{"weigh", "--home", b.home, "--yes", "--json", document, "--seed", strconv.FormatInt(seed, 10)},
			args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	terminal.Fprintln(os.Stderr, " ", cmd.String())
	screen, err := cmd.StdoutPipe()
	if err != nil {
		return run, rep, 0, err
	}
	if err := cmd.Start(); err != nil {
		return run, rep, 0, err
	}
	// Standard output ends as the process does. It then keeps its account until it is
	// waited for; by wait4, its children's would be in it.
	_, _ = io.Copy(os.Stderr, screen)
	account, accountErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err := cmd.Wait(); err != nil {
		return run, rep, 0, fmt.Errorf("tare weigh: %w", err)
	}
	if accountErr != nil {
		return run, rep, 0, accountErr
	}
	itself, err := accounting.ParseProcess(account)
	if err != nil {
		return run, rep, 0, err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return run, rep, 0, err
	}
	var saved struct {
		Run struct {
			ID string `json:"id"`
		} `json:"run"`
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return run, rep, 0, fmt.Errorf("%s: %w", document, err)
	}
	store, err := record.OpenReadOnly(filepath.Join(b.home, storeFile))
	if err != nil {
		return run, rep, 0, err
	}
	defer store.Close()
	if run, err = store.Run(saved.Run.ID); err != nil {
		return run, rep, 0, err
	}
	return run, overhead.Analyse(run, overhead.Options{}), itself.Own, nil
}

// weighing is a job that is one weighing.
func (b *bench) weighing(name string, args ...string) job {
	return job{name, func(ctx context.Context, seed int64) ([]string, result, error) {
		run, rep, _, err := b.weigh(ctx, seed, args...)
		if err != nil {
			return nil, result{}, err
		}
		return []string{run.ID}, resultOf(run, rep), nil
	}}
}

// resultOf is what a line keeps of a run.
func resultOf(run record.Run, rep overhead.Report) result {
	found := result{Figures: figuresOf(rep), Values: timesOf(run, rep)}
	for _, l := range rep.Layers {
		set := func(name string, is bool) {
			if is {
				found.Values[l.Plan.Of+" "+name] = 1
			} else {
				found.Values[l.Plan.Of+" "+name] = 0
			}
		}
		set(layerNamed, l.Cause != nil)
		set(layerIsAll, l.All)
		if l.Cause != nil {
			found.Notes = append(found.Notes, fmt.Sprintf("%s of %s on %s: %s costs %.2f %% (%.2f to %.2f)",
				l.Metric.Name, l.Plan.Of, l.Condition, l.Cause.Layer, l.Cause.Percent, l.Cause.Low, l.Cause.High))
		}
	}
	for workload, why := range run.Plan.Blocked {
		found.Notes = append(found.Notes, workload+" was measured by blocks: "+why)
	}
	return found
}

// Whether a cost was divided, and whether one layer is all of it.
const layerNamed, layerIsAll = "layer named", "layer is all"

func (b *bench) redisJobs() []job {
	jobs := make([]job, b.times(10))
	for i := range jobs {
		jobs[i] = b.weighing("redis, bare metal and Docker", "redis", "--design", record.DesignRounds, "--platform", "bare,docker",
			"--budget", b.lasting(2*time.Minute, 25*time.Second).String())
	}
	return jobs
}

func (b *bench) weighJobs() []job {
	return []job{{"redis, stream and ffmpeg", func(ctx context.Context, seed int64) ([]string, result, error) {
		run, rep, _, err := b.weigh(ctx, seed, "redis", "stream", "ffmpeg", "--design", record.DesignRounds,
			"--budget", b.lasting(8*time.Minute, 80*time.Second).String())
		if err != nil {
			return nil, result{}, err
		}
		found := resultOf(run, rep)
		wide := figuresOf(overhead.Analyse(run, overhead.Options{SmallestEffect: streamEffect}))
		for i, f := range found.Figures {
			if f.Workload == "stream" {
				found.Figures[i].Verdict = wide[i].Verdict
			}
		}
		return []string{run.ID}, found, nil
	}}}
}

// designJobs alternate between the designs, the one that goes first alternating too.
func (b *bench) designJobs() []job {
	var jobs []job
	for i := range b.times(2) {
		for w, name := range []string{"redis", "ffmpeg", "stream"} {
			designs := []string{record.DesignBlocks, record.DesignRounds}
			if (i+w)%2 == 1 {
				designs[0], designs[1] = designs[1], designs[0]
			}
			for _, design := range designs {
				// A precision that nobody reaches has both use all of their time.
				jobs = append(jobs, b.weighing(name+" by "+design, name, "--design", design, "--platform", "bare,docker", "--explain=false",
					"--precision", "0.001%", "--budget", b.lasting(75*time.Second, 20*time.Second).String()))
			}
		}
	}
	return jobs
}

// errNoRun says that a run by lab yielded nothing comparable.
var errNoRun = errors.New("nothing was measured")
