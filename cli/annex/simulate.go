package annex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/annex/config"
	"tare/annex/simulate"
	"tare/annex/synthetic"
	"tare/annex/trace"
	"tare/cli/command"
	"tare/terminal"
)

// simulation is what the flags of simulate say.
type simulation struct {
	trace, mix           string
	memory, swap, medium string
	policies             []string
	warm                 time.Duration
	warmed               bool // by --warm, and not by default
	fleet, grain, sample int
	p99                  time.Duration
	json                 bool
}

func simulateCommand() *cobra.Command {
	s := &simulation{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run a trace on a modelled host under each policy, or plan a fleet",
		Long: `simulate has the daemon's own decisions, and the kernel's without it, go through a trace:
one that annex record wrote, or one made of a mix. Nothing is moved on this host.
docs/annex-trace.md says what the columns are, and the documentation of package
tare/annex/simulate what is modelled and what is not. A sixteenth of --memory is kept free,
whatever a configuration says of memory.headroom. The same input gives the same output, to
the byte.

With --fleet it looks for the most containers a host bears with the 99th percentile of critical
requests (without any, of the delay of bursts) within --p99, says how many hosts that takes, and
runs --sample of them, each with another draw of the mix. With a --grain of 512 that takes a minute
or so for each policy, and by default several times as long: docs/annex-trace.md has figures.`,
		Example: `  annex simulate --mix mix.json --memory 1GiB --swap 3GiB
  annex simulate --trace web.trace --memory 512MiB --swap 2GiB --medium zram
  annex simulate --fleet 10000 --mix mix.json --memory 256GiB --swap 1024GiB --p99 5ms --grain 512`,
		Args: command.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.warmed = cmd.Flags().Changed("warm")
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.trace, "trace", "", "the trace to run")
	f.StringVar(&s.mix, "mix", "", "the mix to make a trace of, as JSON (docs/annex-trace.md)")
	f.StringVar(&s.memory, "memory", "", "memory of a host, such as 1GiB")
	f.StringVar(&s.swap, "swap", "", "swap of a host, such as 3GiB")
	f.StringVar(&s.medium, "medium", simulate.Media()[0], "what swap is on: "+strings.Join(simulate.Media(), ", ")+", or a JSON file of its costs")
	f.StringSliceVar(&s.policies, "policy", policyNames(), "policies to run")
	f.DurationVar(&s.warm, "warm", 0, fmt.Sprintf("how long it runs before anything is counted (default a third of the trace, and %s at most)", config.FormatDuration(mostWarm)))
	f.IntVar(&s.fleet, "fleet", 0, "plan for so many containers")
	f.IntVar(&s.grain, "grain", 16, "with --fleet, how many pages are simulated as one")
	f.IntVar(&s.sample, "sample", simulate.DefaultSample, "with --fleet, how many of its hosts are run")
	f.DurationVar(&s.p99, "p99", 5*time.Millisecond, "with --fleet, what is still good")
	f.BoolVar(&s.json, "json", false, "print JSON")
	return cmd
}

func policyNames() (names []string) {
	for _, p := range simulate.Policies(0) {
		names = append(names, p.Name)
	}
	return names
}

func (s *simulation) run(ctx context.Context, out, errOut io.Writer) error {
	for _, name := range s.policies {
		if !slices.Contains(policyNames(), name) {
			return command.UsageError("--policy %s: want some of %s", name, strings.Join(policyNames(), ", "))
		}
	}
	switch {
	case (s.trace == "") == (s.mix == ""):
		return command.UsageError("name a --trace or a --mix, and not both")
	case s.fleet != 0 && s.mix == "":
		return command.UsageError("--fleet wants a --mix: a trace is of the containers that it has")
	case s.fleet != 0 && s.sample < 1:
		return command.UsageError("--sample %d: want 1 or more of the fleet's hosts", s.sample)
	}
	var mix synthetic.Mix
	var err error
	if s.mix != "" {
		if mix, err = readMix(s.mix); err != nil {
			return err
		}
	}
	host, err := s.host()
	if err != nil {
		return err
	}
	if host.Warm, err = s.warmUp(errOut, mix); err != nil {
		return err
	}
	if s.fleet != 0 {
		return s.plan(ctx, out, errOut, mix, host)
	}
	at, end := wait(errOut)
	defer end()
	var reports []*simulate.Report
	for _, name := range s.policies {
		at.tell("%s", name)
		r, err := s.one(ctx, mix, host, policyOf(name, host.Memory))
		if err != nil {
			return failed(ctx, name, err)
		}
		reports = append(reports, r)
	}
	end()
	if s.json {
		return command.WriteJSON(out, reports)
	}
	return reportTable(out, reports)
}

// Unless it is said otherwise, the first third of a trace is not counted, or the first minute
// of it where that is less.
const (
	warmPart = 3
	mostWarm = time.Minute
)

// warmUp is how long it runs before anything is counted, which is less than the trace lasts.
// Of a trace that was cut, which is simulated up to the cut, that is told; one without an event
// is refused.
func (s *simulation) warmUp(errOut io.Writer, mix synthetic.Mix) (time.Duration, error) {
	what, lasts := "mix", time.Duration(mix.Duration)
	if s.trace != "" {
		from, done, err := openTrace(s.trace)
		if err != nil {
			return 0, fmt.Errorf("--trace %w", err)
		}
		defer done()
		what = "trace"
		all := &counted{Source: from}
		lasts, err = trace.Length(all)
		cut := new(trace.Cut)
		switch wasCut := errors.As(err, &cut); {
		case err != nil && !wasCut:
			return 0, fmt.Errorf("--trace %s: %w", s.trace, err)
		case all.events == 0 && wasCut:
			return 0, fmt.Errorf("--trace %s: the trace holds no event, as it was cut: record it anew with annex record", s.trace)
		case all.events == 0:
			return 0, fmt.Errorf("--trace %s: the trace holds no event: record it anew with annex record", s.trace)
		case wasCut:
			terminal.Fprintf(errOut, "annex: %s: %v\n", s.trace, cut)
		}
	}
	warm := min(lasts/warmPart, mostWarm)
	if !s.warmed {
		return warm, nil
	}
	if s.warm > 0 && s.warm >= lasts {
		return 0, command.UsageError(
			"--warm %s: the %s lasts %s, and nothing would be left to count: want less, as --warm %s",
			config.FormatDuration(s.warm),
			what,
			config.FormatDuration(roundedDown(lasts)),
			config.FormatDuration(roundedDown(warm)),
		)
	}
	return s.warm, nil
}

// counted counts the events that a trace gives.
type counted struct {
	trace.Source
	events int
}

func (c *counted) Next() (trace.Event, error) {
	e, err := c.Source.Next()
	if err == nil {
		c.events++
	}
	return e, err
}

// roundedDown is a time as a person would say it, and no longer.
func roundedDown(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if d >= unit {
			return d.Truncate(unit)
		}
	}
	return d
}

func policyOf(name string, memory int64) simulate.Policy {
	all := simulate.Policies(memory)
	return all[slices.IndexFunc(all, func(p simulate.Policy) bool { return p.Name == name })]
}

// one runs one policy, from the beginning of the trace.
func (s *simulation) one(
	ctx context.Context,
	mix synthetic.Mix,
	host simulate.Host,
	p simulate.Policy,
) (*simulate.Report, error) {
	var from trace.Source
	if s.trace != "" {
		opened, done, err := openTrace(s.trace)
		if err != nil {
			return nil, err
		}
		defer done()
		from = opened
	} else {
		made, err := synthetic.Make(mix)
		if err != nil {
			return nil, err
		}
		from = made
	}
	return simulate.Run(ctx, host, from, p)
}

func (s *simulation) host() (simulate.Host, error) {
	h := simulate.Host{Warm: s.warm}
	var err error
	for _, size := range []struct {
		name, text string
		to         *int64
	}{{"memory", s.memory, &h.Memory}, {"swap", s.swap, &h.Swap}} {
		if *size.to, err = config.ParseSize(size.text); err != nil {
			return h, command.UsageError("--%s %q: want a size such as 1GiB", size.name, size.text)
		}
	}
	if slices.Contains(simulate.Media(), s.medium) {
		h.Medium, err = simulate.Preset(s.medium)
	} else {
		h.Medium, err = readFile(s.medium, simulate.ParseMedium)
	}
	if err != nil {
		return h, command.UsageError("--medium %v: want %s, or a JSON file of its costs", err, strings.Join(simulate.Media(), ", "))
	}
	if err := h.Check(); err != nil {
		return h, command.UsageError("the host: %v", err)
	}
	return h, nil
}

func readMix(path string) (synthetic.Mix, error) {
	m, err := readFile(path, synthetic.Parse)
	if err != nil {
		return m, command.UsageError("--mix %v", err)
	}
	return m, nil
}

// readFile has a file read by parse; its errors begin with the file.
func readFile[T any](path string, parse func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, reasonOf(err))
	}
	defer f.Close()
	v, err := parse(f)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

func (s *simulation) plan(ctx context.Context, out, errOut io.Writer, mix synthetic.Mix, host simulate.Host) error {
	var plans []simulate.Planned
	f := simulate.Fleet{Containers: s.fleet, Host: host, P99: s.p99, Grain: s.grain, Sample: s.sample}
	if err := f.Check(); err != nil {
		return command.UsageError("--fleet: %v", err)
	}
	at, end := wait(errOut)
	defer end()
	f.Tell = func(p simulate.Progress) { at.tell("%s", progressText(p)) }
	for _, name := range s.policies {
		p, err := simulate.Plan(ctx, mix, f, func(memory int64) simulate.Policy { return policyOf(name, memory) })
		if err != nil {
			return failed(ctx, name, err)
		}
		plans = append(plans, p)
	}
	end()
	if s.json {
		return command.WriteJSON(out, plans)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	terminal.Fprintf(w, "policy\tcontainers a host\thosts\trun\tp99\tworst of them\tover\t\n")
	for _, p := range plans {
		terminal.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%v\t%d\t\n", p.Policy, p.PerHost, p.Hosts, p.Ran, rounded(p.P99), rounded(p.Worst), p.Over)
	}
	return w.Flush()
}

// progressText tells what a plan is at.
func progressText(p simulate.Progress) string {
	if p.Hosts > 0 {
		return fmt.Sprintf("%s: a host bears %d; %d of %s run", p.Policy, p.Bears, p.Ran, plural(int64(p.Hosts), "host"))
	}
	text := fmt.Sprintf("%s: tries %s on a host", p.Policy, plural(int64(p.Trying), "container"))
	if p.Bears > 0 {
		text += fmt.Sprintf(", which bears %d", p.Bears)
	}
	if p.Fails > 0 {
		text += fmt.Sprintf(", and not %d", p.Fails)
	}
	return text
}

// failed is why a policy was not simulated to the end: its own reason, or that nobody wants it
// any more.
func failed(ctx context.Context, policy string, err error) error {
	if ctx.Err() != nil {
		return errors.New("stopped by the user before it had ended: nothing of it is printed")
	}
	return fmt.Errorf("%s: %w", policy, err)
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func reportTable(out io.Writer, reports []*simulate.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	terminal.Fprintf(w, "policy\tcritical p50\tp99\tp99.9\tburst p50\tp99\tdelay p50\tp99\tdemand faults\tin/s\tout/s\twasted\tevict errors\t\n")
	for _, r := range reports {
		rate := func(pages int) string {
			if r.Seconds == 0 {
				return "-"
			}
			return fmt.Sprintf("%.0f", float64(pages)/r.Seconds)
		}
		wasted := "-"
		if r.Ahead > 0 {
			wasted = fmt.Sprintf("%.1f%%", 100*float64(r.Wasted)/float64(r.Ahead))
		}
		terminal.Fprintf(
			w,
			"%s\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t%d\t%s\t%s\t%s\t%d\t\n",
			r.Policy,
			rounded(r.Critical.P50),
			rounded(r.Critical.P99),
			rounded(r.Critical.P999),
			rounded(r.Bursts.P50),
			rounded(r.Bursts.P99),
			rounded(r.Delays.P50),
			rounded(r.Delays.P99),
			r.Demand,
			rate(r.In),
			rate(r.Out),
			wasted,
			r.Errors,
		)
	}
	return w.Flush()
}
