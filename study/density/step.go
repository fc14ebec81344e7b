// Package density asks what idle neighbours do to a critical service: the presence of
// memory alone, at a total load that stays the same however many there are (S3).
//
// It is about memory: what neighbours do to a service's CPU is study/latency/cpu.
package density

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/platform"
	"tare/record"
)

// Name is the study's, in runs and on the command line.
const Name = "density"

// Factors of a condition.
const (
	FactorPolicy     = "policy"     // arm: "file", "file, swappiness", "zram, page-cluster 0"
	FactorOrder      = "order"      // Continuous or Interleaved
	FactorNeighbours = "neighbours" // of an interleaved condition: the one number; else the list, "1,3,5"
	FactorSwap       = "swap"       // platform.SwapKind
	FactorProtect    = "protect"    // platform.Protection
	FactorCluster    = "page-cluster"
	FactorExtend     = "extend" // "none", "annex", or "annex:" and the name of its configuration
	// FactorExtendConfig is that configuration, whole and without comments; there is none beside the
	// others. What the box replaces stands in it as it was read.
	FactorExtendConfig = "extend-config"
	FactorNoise        = "noise" // the idle workload and its pattern: "static random"
	FactorBox          = "box"   // "cgroup 1 GiB", "machine 1 GiB"
)

// The orders in which numbers of neighbours come.
const (
	Continuous  = "continuous"  // one trial adds neighbours, step by step, and removes none (S3)
	Interleaved = "interleaved" // a trial is one number of neighbours, in a box of its own
)

// Step is what was found at one number of neighbours. A trial of a continuous condition
// has one for each, rising; one of an interleaved condition has one.
type Step struct {
	Neighbours int `json:"neighbours"`
	// Overcommit is the memory asked for over the box's: what programs in it have written
	// (anonymous, resident or swapped), and no files, which the kernel can read again.
	Overcommit float64 `json:"overcommit"`
	Asked      int64   `json:"asked_bytes"`
	// Stop is why the sweep ended at this step; empty where it went on.
	Stop string `json:"stop,omitempty"`
	// Closed is the critical service under clients that wait for their answers, as S3's:
	// its throughput. Open is the same service under a schedule: its latency from the
	// intended start. Idle are the neighbours' own requests.
	Closed Served `json:"closed"`
	Open   Served `json:"open"`
	Idle   Served `json:"idle"`
	// Bursts of requests to a neighbour, from intended start to the last answer; empty
	// where a burst is one request.
	Bursts Served `json:"bursts"`
	// Elapsed is the time that the accounts below are over: both loads.
	Elapsed       time.Duration `json:"elapsed_ns"`
	SwapIn        int64         `json:"swap_in_pages"`
	SwapOut       int64         `json:"swap_out_pages"`
	DeviceWritten int64         `json:"device_written_bytes"`
	DeviceRead    int64         `json:"device_read_bytes"`
	Pool          int64         `json:"pool_bytes"`
	// SwapUsed and SwapSize are the swap area's at the step's end; both 0 without one, and in
	// steps kept before they were.
	SwapUsed int64                            `json:"swap_used_bytes"`
	SwapSize int64                            `json:"swap_size_bytes"`
	Classes  map[platform.Class]ClassAccounts `json:"classes"`
	// Limit is the box's at the step's end, what compressed swap holds being taken from it;
	// Keeper the CPU time of tare's own that kept the box within the step; Reclaimed says
	// for how long of it that reclaimed ahead of need.
	Limit     int64         `json:"limit_bytes"`
	Keeper    time.Duration `json:"keeper_ns"`
	Reclaimed time.Duration `json:"reclaimed_ns"`
	// Extension is what the box's memory extension did within the step; nil where it had none.
	Extension *Extended `json:"extension,omitempty"`
	// Notes are what is to be known of the box: that it could not be kept as it was asked
	// for, that the host has swap of its own.
	Notes []string `json:"notes,omitempty"`
	// Absent are figures above that the kernel does not report, by JSON name, with the reason.
	Absent map[string]string `json:"absent,omitempty"`
}

// Served is how one load was answered.
type Served struct {
	Rate     float64 `json:"rate"` // requests answered rightly a second
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed"`
	// Elapsed is how long it was under way; 0 where the step ended before it.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Latency is kept apart from the rest (as a histogram of the trial), in microseconds.
	Latency *hdrhistogram.Histogram `json:"-"`
	// Batches are the same in spans of time; nil of the neighbours' own requests, where the
	// service is loaded by a program of its own, and of steps kept before there were any.
	Batches *Batches `json:"batches,omitempty"`
}

// ClassAccounts is what a class held at the end of a step, and used within it.
type ClassAccounts struct {
	Resident    int64         `json:"resident_bytes"`
	Swapped     int64         `json:"swapped_bytes"`
	MajorFaults int64         `json:"major_faults"`
	Some        time.Duration `json:"pressure_some_ns"`
	Full        time.Duration `json:"pressure_full_ns"`
	CPU         time.Duration `json:"cpu_ns"`
	OOMKills    int64         `json:"oom_kills"`
}

// loads names the histograms of a step.
func (s *Step) loads() map[string]*Served {
	return map[string]*Served{"closed": &s.Closed, "open": &s.Open, "idle": &s.Idle, "bursts": &s.Bursts}
}

// AttachmentSteps is a trial's steps, whole, as JSON: what its covariates cannot hold are
// the texts, why it stopped and what is absent.
const AttachmentSteps = "steps.json"

// keeper is the part of a bench that steps are kept by.
type keeper interface {
	RecordHistogram(name string, h *hdrhistogram.Histogram)
	Covariate(name string, value float64)
	Attach(a record.Attachment)
}

// keep records the steps of a trial: latencies as histograms, numbers as covariates, so
// that a judge finds them in a stored run, and all of it with its texts as an attachment.
func keep(b keeper, steps []Step) error {
	for i := range steps {
		for load, served := range steps[i].loads() {
			if served.Latency != nil && served.Latency.TotalCount() > 0 {
				b.RecordHistogram(stepName(steps[i].Neighbours, load), served.Latency)
			}
			if served.Batches != nil {
				for span, h := range served.Batches.Latency {
					b.RecordHistogram(spanName(steps[i].Neighbours, load, span), h)
				}
			}
		}
		text, err := json.Marshal(steps[i])
		if err != nil {
			return fmt.Errorf("keep a step: %w", err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			return fmt.Errorf("keep a step: %w", err)
		}
		flatten(stepName(steps[i].Neighbours, ""), tree, b.Covariate)
		if steps[i].Stop != "" {
			b.Covariate(stepName(steps[i].Neighbours, stoppedText), 1)
		}
		if steps[i].unanswered() {
			b.Covariate(stepName(steps[i].Neighbours, unansweredText), 1)
		}
	}
	text, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("keep the steps: %w", err)
	}
	b.Attach(record.Attachment{Name: AttachmentSteps, MediaType: "application/json", Data: text})
	return nil
}

// stepName names a figure of a step: "17/open".
func stepName(neighbours int, figure string) string { return fmt.Sprintf("%d/%s", neighbours, figure) }

// spanName names the histogram of one span of a load: "17/open.batches.latency.3".
func spanName(neighbours int, load string, span int) string {
	return stepName(neighbours, fmt.Sprintf("%s.batches.latency.%d", load, span))
}

// flatten gives the numbers of a tree, each with its path.
func flatten(prefix string, tree map[string]any, give func(name string, value float64)) {
	for key, value := range tree {
		switch v := value.(type) {
		case float64:
			give(prefix+key, v)
		case map[string]any:
			flatten(prefix+key+".", v, give)
		}
	}
}

// stoppedText names the covariate of a step at which a sweep ended, and stands in what is
// read back for the reason, which only the attachment has.
const stoppedText = "stopped"

// unansweredText names the covariate of a step that ended its sweep because of a whole
// load nothing was answered: such an end is a figure of throughput, as others are not.
const unansweredText = "unanswered"

// overHalf reports whether swap on a device was more than half full.
func (s *Step) overHalf(kind string) bool {
	return kind != string(platform.SwapZRAM) && 2*s.SwapUsed > s.SwapSize
}

// unanswered reports whether that is why a sweep ended at a step.
func (s *Step) unanswered() bool {
	return strings.HasPrefix(s.Stop, "it thrashes") && strings.Contains(s.Stop, errUnanswered.Error())
}

// stepsOf reads the steps of a stored trial back, in rising order, but for their texts.
func stepsOf(t record.Trial) ([]Step, error) {
	trees := map[int]map[string]any{}
	stopped, unanswered := map[int]bool{}, map[int]bool{}
	for name, value := range t.Covariates {
		number, figure, ok := strings.Cut(name, "/")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue // of the host, or the lab
		}
		if trees[n] == nil {
			trees[n] = map[string]any{}
		}
		if figure == stoppedText {
			stopped[n] = value != 0
			continue
		}
		if figure == unansweredText {
			unanswered[n] = value != 0
			continue
		}
		tree := trees[n]
		keys := strings.Split(figure, ".")
		for _, key := range keys[:len(keys)-1] {
			inner, ok := tree[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				tree[key] = inner
			}
			tree = inner
		}
		// Counts go through a float: those above 2^53 are none that a host has.
		tree[keys[len(keys)-1]] = json.Number(strconv.FormatFloat(value, 'f', -1, 64))
	}
	var steps []Step
	for _, n := range slices.Sorted(maps.Keys(trees)) {
		text, err := json.Marshal(trees[n])
		if err != nil {
			return nil, fmt.Errorf("trial %d, %d neighbours: %w", t.ID, n, err)
		}
		s := Step{}
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("trial %d, %d neighbours: %w", t.ID, n, err)
		}
		s.Neighbours = n
		if stopped[n] {
			s.Stop = stoppedText
		}
		if unanswered[n] {
			s.Stop = "it thrashes: " + errUnanswered.Error()
		}
		for load, served := range s.loads() {
			if served.Batches != nil {
				if err := served.Batches.readLatency(t, n, load); err != nil {
					return nil, err
				}
			}
			served.Latency = hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
			text, ok := t.Histograms[stepName(n, load)]
			if !ok {
				continue
			}
			if served.Latency, err = hdrhistogram.Decode([]byte(text)); err != nil {
				return nil, fmt.Errorf("trial %d, %d neighbours, %s: %w", t.ID, n, load, err)
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}
