package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/kernel/host"
	"tare/lab"
	"tare/platform"
	"tare/platform/box"
	"tare/report"
	"tare/terminal"
)

func (a *app) doctor() *cobra.Command {
	var jsonPath string
	var quick bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can measure, what it lacks, and its noise",
		Long: `Doctor tries each ability that tare uses and names, for one that is missing, the
command or capability that mends it; and it measures how quiet the host is: how
late timers are, what the hypervisor takes, and how far a short loop is from
taking as long as it took before.`,
		Example: "  tare doctor\n  tare doctor --json -",
		Args:    command.ExactArgs(0),
	}
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the answers as JSON to this file (- for standard output)")
	cmd.Flags().BoolVar(&quick, "quick", false, "leave the noise out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := a.stateDir()
		if err != nil {
			return err
		}
		facts := host.Read("/")
		d := diagnosis{Schema: "tare-doctor/1", Host: hostRecord(facts)}
		for _, r := range requirements {
			d.Commands = append(d.Commands, r.answer(facts))
		}
		d.Platforms = examinePlatforms(cmd.Context(), dir, doctored...)
		for _, ability := range host.Abilities() {
			d.Abilities = append(d.Abilities, answer{ability.Name, ability.OK, ability.Detail, ability.Mend})
		}
		d.Abilities = append(d.Abilities, examineBoxes(dir))
		if !quick {
			noise, err := host.MeasureNoise(cmd.Context(), host.Usual)
			if err != nil {
				return err
			}
			d.Noise = describeNoise(noise)
		}
		if jsonPath != "" {
			if err := a.emitJSON(jsonPath, d); err != nil || jsonPath == "-" {
				return err
			}
		}
		a.printDiagnosis(d)
		return nil
	}
	return cmd
}

// diagnosis is the document of `tare doctor --json`.
type diagnosis struct {
	Schema    string   `json:"schema"`
	Host      any      `json:"host"`
	Commands  []answer `json:"commands"`
	Platforms []answer `json:"platforms"`
	Abilities []answer `json:"abilities"`
	Noise     *noise   `json:"noise,omitempty"`
}

// answer says whether something can be had here.
type answer struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Mend   string `json:"mend,omitempty"`
}

// noise is in microseconds, and shares from 0 to 1.
type noise struct {
	TimerP50 float64 `json:"timer_lateness_p50_us"`
	TimerP99 float64 `json:"timer_lateness_p99_us"`
	TimerMax float64 `json:"timer_lateness_max_us"`
	Sleeps   int     `json:"timer_n"`
	LoopP99  float64 `json:"loop_p99_over_median"`
	LoopMax  float64 `json:"loop_max_over_median"`
	LoopAA   float64 `json:"loop_aa"`
	Loops    int     `json:"loop_n"`
	Steal    float64 `json:"steal_share"`
	Foreign  float64 `json:"foreign_share"`
	Loudest  string  `json:"foreign_most,omitempty"`
}

func describeNoise(n host.Noise) *noise {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return &noise{
		TimerP50: us(n.Timer.P50), TimerP99: us(n.Timer.P99), TimerMax: us(n.Timer.Max), Sleeps: n.Timer.N,
		LoopP99: n.Loop.P99, LoopMax: n.Loop.Max, LoopAA: n.Loop.AA, Loops: n.Loop.N,
		Steal: n.Steal, Foreign: n.Foreign, Loudest: n.Loudest,
	}
}

// doctored are the platforms that doctor asks.
var doctored = []string{"bare", "cgroup", "oci:runc", "oci:crun", "oci:runsc", "containerd", "docker", "docker:rootless", "docker:swarm", "k8s", "vm:kvm/bare", "vm:tcg/bare"}

// examinePlatforms asks each platform whether it can be used here, all at once: engines that do
// not answer cost one bound together.
func examinePlatforms(ctx context.Context, dir string, names ...string) []answer {
	platforms := lab.Remover(dir)
	answers := make([]answer, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		p, err := platforms(name)
		if err != nil {
			answers[i] = answer{Name: name, Mend: err.Error()}
			continue
		}
		// A look is enough, where a check would make what a machine boots from.
		check := func() error { return p.Check(ctx) }
		if l, ok := p.(platform.Looking); ok {
			check = l.Look
		}
		all.Go(func() {
			if err := check(); err != nil {
				answers[i] = answer{Name: name, Mend: err.Error()}
				return
			}
			answers[i] = answer{Name: name, OK: true, Detail: p.Version(ctx)}
		})
	}
	all.Wait()
	return answers
}

// examineBoxes says what can stand for a machine whose memory runs out.
func examineBoxes(dir string) answer {
	offers, err := box.New(box.Options{StateDir: dir}).Look()
	if err != nil {
		return answer{Name: "boxes of memory", Mend: err.Error()}
	}
	return answer{Name: "boxes of memory", OK: true, Detail: offers}
}

func (a *app) printDiagnosis(d diagnosis) {
	section := func(title string, answers []answer) {
		terminal.Fprintln(a.out, title)
		widest := 0
		for _, r := range answers {
			widest = max(widest, terminal.Columns(r.Name))
		}
		for _, r := range answers {
			word, text := "yes", r.Detail
			if !r.OK {
				word, text = "no", r.Mend
				if r.Detail != "" && r.Mend != "" {
					text = r.Detail + ": " + r.Mend
				} else if r.Detail != "" {
					text = r.Detail
				}
			}
			a.hanging(fmt.Sprintf("  %s  %-5s", terminal.Fit(r.Name, widest, false), word), text)
		}
	}
	a.printCommands(d.Commands)
	terminal.Fprintln(a.out)
	section("Platforms", d.Platforms)
	terminal.Fprintln(a.out)
	section("Abilities", d.Abilities)
	if n := d.Noise; n != nil {
		terminal.Fprintln(a.out, "\nNoise")
		for _, line := range []string{
			fmt.Sprintf("timers are late by %.0f µs (p50), %.0f µs (p99), %.0f µs at most, of %d sleeps", n.TimerP50, n.TimerP99, n.TimerMax, n.Sleeps),
			fmt.Sprintf("a short loop takes %.2f %% longer than its median at p99, %.1f %% at most, of %d; A/A: every other run is %.3f %% apart",
				100*(n.LoopP99-1), 100*(n.LoopMax-1), n.Loops, 100*n.LoopAA),
			fmt.Sprintf("the hypervisor took %.2f %% of the CPU time meanwhile, other programs %.1f %%", 100*n.Steal, 100*n.Foreign),
			n.judgement(),
		} {
			a.hanging("  ", line)
		}
	}
}

// hanging prints a text behind what its first line begins with, as wide as the screen.
func (a *app) hanging(lead, text string) {
	for _, line := range report.Wrapped(text, terminalWidth(a.out)-terminal.Columns(lead)) {
		terminal.Fprintln(a.out, strings.TrimRight(lead+line, " "))
		lead = strings.Repeat(" ", terminal.Columns(lead))
	}
}

// judgement says by the limits of a measurement whether this host is quiet enough for one.
func (n *noise) judgement() string {
	switch {
	case n.Foreign > lab.ForeignLimit:
		return fmt.Sprintf("busy: more than %.0f %% by others disturbs a measurement. End or wait for what runs (%s most)", 100*lab.ForeignLimit, n.Loudest)
	case n.Steal > lab.StealLimit:
		return fmt.Sprintf("busy: more than %.0f %% by the hypervisor disturbs a measurement. Measure at another time, or on another host", 100*lab.StealLimit)
	}
	return "quiet: nothing here would disturb a measurement"
}
