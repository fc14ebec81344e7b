package startup

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	Subjects  []workload.Subject
	Platforms []string  // canonical names; the default ones if empty
	Rates     []float64 // starts a second; none where Rates is empty
	Count     int       // containers of a trial at a rate; 0 is a number that goes with the rate
	Arrival   load.Arrival
	Base      platform.Setting
	Knee      bool // search the knee
	Single    bool // one start at a time
	Cold      bool // and with a cold page cache: drops the host's
	Profile   bool // sample, trace, and weigh the sampling

	AnswerLimit, ReadyLimit time.Duration // 0 is the default

	Plan record.Plan
	Seed int64

	Host  kit.Host
	Watch Watching
}

// Watching is what looks on while containers start. Its fields are nil where
// the host cannot, or where nobody asked.
type Watching struct {
	First  watcher       // first instructions
	Sample observer      // on-CPU profile
	Blocks observer      // off-CPU profile
	Watch  observer      // one more watch for first instructions: what one costs
	Trace  func() tracer // single starts through the scheduler, anew for each trial
	// Notes say what is missing on this host, and so absent from the result.
	Notes []string
}

// defaultPlatforms are tried where the user names none.
var defaultPlatforms = []string{"docker", "containerd", "oci:runc", "oci:crun"}

// DefaultRates are S1's.
var DefaultRates = []float64{1, 2, 4, 8}

// The kinds of trials, a factor of each condition.
const (
	factorKind  = "kind"
	factorRate  = "rate"
	factorCount = "count"
	factorCache = "cache"
	factorProbe = "probe"

	kindRamp    = "ramp"
	kindKnee    = "knee"
	kindSingle  = "single"
	kindTrace   = "trace"
	kindProfile = "profile"
	kindBlocked = "off-cpu"
	kindBurst   = "burst"
)

// countFor is how many containers are started at a rate where the user does not
// say: four seconds' worth, and enough to estimate the growth of the backlog.
func countFor(rate float64) int {
	return int(min(max(math.Ceil(4*rate), 10), 64))
}

const (
	singleCount = 6  // single starts of a trial
	burstCount  = 24 // starts of a burst
)

// Design makes the design. Errors of what was asked are *kit.Usage; a platform that
// the user named and the host lacks is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	if o.AnswerLimit == 0 {
		o.AnswerLimit = answerLimit
	}
	if o.ReadyLimit == 0 {
		o.ReadyLimit = readyLimit
	}
	platforms, notes, err := o.platforms()
	if err != nil {
		return d, err
	}
	d.Plan.Notes = append(append(d.Plan.Notes, notes...), o.Watch.Notes...)
	names := namesOf(o.Subjects)
	for i, s := range o.Subjects {
		groups, notes, err := o.groups(s, names[i], platforms, i == len(o.Subjects)-1)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, groups...)
		d.Plan.Notes = append(d.Plan.Notes, notes...)
	}
	if len(d.Groups) == 0 {
		return d, kit.Usagef("nothing to measure: give --rate, --knee, --single or --profile")
	}
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error() + ": name each workload and rate once"}
	}
	return d, nil
}

// check refuses what cannot be measured.
func (o Options) check() error {
	for _, r := range o.Rates {
		if math.IsNaN(r) || r < MinRate || r > MaxRate {
			return kit.Usagef("--rate %g: want %g to %g starts a second", r, float64(MinRate), float64(MaxRate))
		}
	}
	if o.Count < 0 || o.Count > MaxCount {
		return kit.Usagef("--count %d: want 1 to %d containers", o.Count, MaxCount)
	}
	if o.Count > 0 && o.Count < fewestForGrowth && len(o.Rates) > 0 {
		return kit.Usagef("--count %d: want at least %d: with fewer starts it is unknown whether the platform keeps up", o.Count, fewestForGrowth)
	}
	if why := o.Base.Contradiction(o.Host.CPUs); why != "" {
		return kit.Usagef("%s", why)
	}
	return nil
}

// platforms settles which platforms take part. The first is the baseline.
func (o Options) platforms() (names, notes []string, err error) {
	wanted, named := o.Platforms, true
	if len(wanted) == 0 {
		wanted, named = defaultPlatforms, false
	}
	for _, name := range wanted {
		p, err := o.Host.Platform(name)
		if err != nil {
			return nil, nil, &kit.Usage{Text: err.Error()}
		}
		err = o.Host.Check(p)
		if _, ok := p.(platform.Creator); err == nil && !ok {
			err = kit.Usagef("%s cannot create a container without starting it", name)
		}
		if err == nil {
			err = p.Supports(o.Base)
		}
		switch {
		case err != nil && named:
			return nil, nil, fmt.Errorf("platform %s: %w", name, err)
		case err != nil:
			notes = append(notes, fmt.Sprintf("%s left out: %v", name, err))
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil, &platform.Missing{
			What: "no platform can be used here: " + strings.Join(notes, "; "), Mend: "`tare doctor` says what is missing",
		}
	}
	return names, notes, nil
}

// groups lists a workload's groups.
func (o Options) groups(
	s workload.Subject, name string, platforms []string, last bool,
) (groups []lab.Group, notes []string, err error) {
	params, err := workload.Resolve(s.Workload, s.Params)
	if err != nil {
		return nil, nil, &kit.Usage{Text: err.Error()}
	}
	program, err := s.Workload.Program(params)
	if err != nil {
		return nil, nil, &kit.Usage{Text: err.Error()}
	}
	_, asked := workload.Serves(s.Workload, program)
	if program.Service && !asked && len(program.Ports) > 0 {
		notes = append(notes, s.Workload.Name()+" declares no check of readiness: only the answer and the first instruction are timed")
	}
	if n := o.Base.Network; len(program.Ports) > 0 && (n == "" || n == platform.NetworkHost) {
		return nil, nil, kit.Usagef("%s serves a port, which only one container can have in the host's network: give --network bridge", s.Workload.Name())
	}
	b := groupBuilder{Options: o, subject: s, name: name, params: params, service: asked}
	base := func(rate float64, count int) ramp {
		return ramp{
			workload: s.Workload, rate: rate, count: count, arrival: o.Arrival,
			watch: o.Watch.First, answerIn: o.AnswerLimit, readyIn: o.ReadyLimit,
		}
	}
	for _, rate := range o.Rates {
		count := o.Count
		if count == 0 {
			count = countFor(rate)
		}
		r := base(rate, count)
		groups = append(groups, b.group("rate="+number(rate), platforms, rampMetrics(asked), r.run, map[string]string{
			factorKind: kindRamp, factorRate: number(rate), factorCount: strconv.Itoa(count), "arrivals": string(o.Arrival),
		}))
	}
	if o.Knee {
		search := knee{base(0, 0), firstGuess}
		groups = append(
			groups,
			b.group("knee", platforms, kneeMetrics(), search.run, map[string]string{factorKind: kindKnee}),
		)
	}
	one := single{
		workload: s.Workload, count: singleCount,
		watch: o.Watch.First, answerIn: o.AnswerLimit, readyIn: o.ReadyLimit,
	}
	if o.Single && !o.Cold {
		groups = append(groups, b.group("single", platforms, singleMetrics(asked), one.run, map[string]string{
			factorKind: kindSingle, factorCache: "warm",
		}))
	}
	if o.Cold {
		cold := one
		cold.cold = true
		for _, p := range platforms {
			groups = append(groups, b.versus("single", p, singleMetrics(asked), kindSingle, factorCache,
				level{"warm", one.run}, level{"cold", cold.run}))
		}
	}
	if o.Profile {
		groups = append(groups, b.profiled(platforms, base, one)...)
		if last { // looking costs what the engine makes of it, whatever it starts; S1's last is a light one
			groups = append(groups, b.weighed(platforms, base)...)
		}
	}
	return groups, notes, nil
}

// profiled lists the groups that say where the time goes.
func (b groupBuilder) profiled(platforms []string, base func(float64, int) ramp, one single) []lab.Group {
	var groups []lab.Group
	rate := profileRate(b.Rates, len(b.Host.CPUs))
	count := max(b.Count, countFor(rate))
	levels := func(kind string) map[string]string {
		return map[string]string{factorKind: kind, factorRate: number(rate), factorCount: strconv.Itoa(count)}
	}
	if b.Watch.Sample != nil {
		r := base(rate, count)
		r.observe = b.Watch.Sample
		groups = append(groups, b.group("profile", platforms, profileMetrics(), profiled{r}.run, levels(kindProfile)))
	}
	if b.Watch.Blocks != nil {
		r := base(rate, count)
		r.observe = b.Watch.Blocks
		groups = append(groups, b.group("off-cpu", platforms, blockedMetrics(), profiled{r}.run, levels(kindBlocked)))
	}
	if b.Watch.Trace != nil {
		one := one
		one.trace = b.Watch.Trace
		groups = append(
			groups,
			b.group("trace", platforms, traceMetrics(), one.run, map[string]string{factorKind: kindTrace}),
		)
	}
	return groups
}

// profileRate is at how many starts a second profiles are made: the most of the rates that is no more
// than one for each CPU, as S1's 8 were on 24. At more, a program that starts slowly never serves,
// and its profile is of containers that wait for each other. Where all rates are more, it is the lowest.
func profileRate(rates []float64, cpus int) float64 {
	if len(rates) == 0 {
		rates = DefaultRates
	}
	rate := slices.Min(rates)
	for _, r := range rates {
		if r <= float64(cpus) {
			rate = max(rate, r)
		}
	}
	return rate
}

// weighed lists the groups that say what looking costs.
func (b groupBuilder) weighed(platforms []string, base func(float64, int) ramp) (groups []lab.Group) {
	if b.Watch.Sample == nil {
		return nil
	}
	looking := func(o observer) lab.Procedure {
		r := base(0, burstCount)
		r.observe = o
		return burst{r}.run
	}
	for _, p := range platforms {
		groups = append(groups, b.versus("burst", p, burstMetrics(), kindBurst, factorProbe,
			level{"none", looking(nil)}, level{"profile", looking(silent{b.Watch.Sample})},
			level{"watch", looking(b.Watch.Watch)}))
	}
	return groups
}

// groupBuilder makes the groups of one workload.
type groupBuilder struct {
	Options
	subject workload.Subject
	name    string
	params  workload.Params
	service bool
}

// group has a condition for each platform, the first being the baseline. One alone is compared with
// nothing in its group.
func (b groupBuilder) group(
	variant string, platforms []string, metrics []workload.Metric, run lab.Procedure, factors map[string]string,
) lab.Group {
	g := lab.Group{Workload: b.name + "[" + variant + "]", Once: len(platforms) == 1}
	for i, p := range platforms {
		g.Conditions = append(g.Conditions, b.condition(g.Workload, p, p, maps.Clone(factors), metrics, i == 0, run))
	}
	return g
}

// level is one level of a factor, and how its trials go.
type level struct {
	name string
	run  lab.Procedure
}

// versus has the levels of one factor on one platform, the first being the
// baseline.
func (b groupBuilder) versus(
	variant, on string, metrics []workload.Metric, kind, factor string, levels ...level,
) lab.Group {
	g := lab.Group{Workload: fmt.Sprintf("%s[%s,%s]", b.name, variant, on)}
	for i, l := range levels {
		factors := map[string]string{factorKind: kind, factor: l.name}
		label := on + " " + factor + "=" + l.name
		g.Conditions = append(g.Conditions, b.condition(g.Workload, on, label, factors, metrics, i == 0, l.run))
	}
	return g
}

func (b groupBuilder) condition(
	group, on, label string,
	factors map[string]string,
	metrics []workload.Metric,
	baseline bool,
	procedure lab.Procedure,
) lab.Condition {
	return lab.Condition{
		Condition: record.Condition{
			ID: group + "@" + strings.ReplaceAll(label, " ", ","), Label: label, Workload: group, Params: b.params,
			Platform: on, Setting: b.Base, Factors: factors, Baseline: baseline, Metrics: metrics,
		},
		Program: b.subject.Workload, Source: b.subject.Image(), Procedure: procedure, Limit: b.limit(factors),
		Takes: trialTime(factors), Warms: warmUpTime(factors),
	}
}

// limit bounds a trial by the bounds of what it consists of: a search tries some
// ten rates, several times, each with its own bounded waits.
func (b groupBuilder) limit(factors map[string]string) time.Duration {
	const ramps, each = 30, 5 * time.Second
	one := b.AnswerLimit + b.ReadyLimit
	if factors[factorKind] == kindKnee {
		return ramps * (one + kneeFewest/lowestKnee*time.Second/ramps + kneeMost*each)
	}
	return max(30*time.Minute, 2*(one+trialTime(factors))+time.Duration(MaxCount)*each)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
