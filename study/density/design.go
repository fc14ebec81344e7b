package density

import (
	"context"
	"fmt"
	"maps"
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

// Further factors of a condition: what its trials are made by.
const (
	factorNeighbourMemory = "neighbour-memory"
	factorThink           = "think"
	factorStep            = "step" // "4s+2s": both loads
	factorIdleLoop        = "idle-loop"
	factorBurst           = "burst"
	factorSettle          = "settle" // before each step's loads
	factorWarm            = "warm"   // "6 of 3s": the most rounds before the first step
	factorCaches          = "caches" // "dropped" where the page cache is, at each step
)

// The metrics of a condition. Of a continuous one they are of each number of neighbours.
const (
	MetricThroughput = "throughput"
	MetricP50        = "p50"
	MetricP99        = "p99"

	histogramOpen = "open" // of an interleaved trial, whatever its number of neighbours
)

// pressed is the overcommitment at which a continuous condition has its second pair of
// primary metrics: well beyond what fits, and well before S3's fall at 2.5.
const pressed = 1.5

// Design makes the design. Errors of what was asked are *[Usage]; a host that lacks what
// was asked gives a *[platform.Missing] or *[platform.Unsupported].
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b := &builder{Options: o}
	if err := b.find(); err != nil {
		return d, err
	}
	for _, noise := range o.Noises {
		n, err := b.findNoise(noise)
		if err != nil {
			return d, err
		}
		for _, pattern := range o.Patterns {
			g, err := b.group(n, pattern)
			if err != nil {
				return d, err
			}
			d.Groups = append(d.Groups, g)
		}
	}
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	if err := d.Validate(); err != nil {
		return d, kit.Usagef("%v", err)
	}
	return d, nil
}

// find reads what all groups share.
func (b *builder) find() error {
	for _, step := range []func() error{b.findPlatform, b.findExtends, b.findCritical} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Outline says in a few lines what a design does step by step, and what it touches
// besides what all studies do.
func Outline(o Options) ([]string, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &builder{Options: o}
	if err := b.find(); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("Each step: %v of %g requests per second to %s, by a schedule, then %v of clients that wait for each answer; meanwhile %s, whatever their number.",
		b.Open, b.critical.rate, b.critical.name(), b.Closed, b.asking())}
	swaps := slices.ContainsFunc(b.Swaps, func(s platform.SwapKind) bool { return s != platform.SwapNone })
	for _, s := range b.Noises {
		n, err := b.findNoise(s)
		if err != nil {
			return nil, err
		}
		asked := b.critical.need + int64(b.most())*n.bytes
		text := fmt.Sprintf(
			"Memory: %s (%s). Up to %d of %s, %s each, and %s demand about %.1f times that",
			sizeText(b.Box),
			b.BoxKind,
			b.most(),
			s.Workload.Name(),
			sizeText(n.bytes),
			b.critical.name(),
			float64(asked)/float64(b.Box),
		)
		if swaps {
			text += fmt.Sprintf("; swap of %s (%s), made for each trial and removed afterwards", sizeText(b.swapSize(n)), listed(b.Swaps))
		}
		lines = append(lines, text+".")
	}
	var touched []string
	if slices.ContainsFunc(b.Clusters, b.setsCluster) {
		touched = append(touched, "vm.page-cluster")
	}
	if slices.Contains(b.Swaps, platform.SwapZswap) {
		touched = append(touched, "the parameters of zswap")
	}
	if len(touched) > 0 {
		lines = append(lines, "Set while a trial runs, and restored afterwards: "+strings.Join(touched, ", ")+".")
	}
	if b.DropCaches {
		lines = append(lines, "The page cache of the whole host is dropped before each step.")
	}
	return append(lines, fmt.Sprintf("A sweep ends early where the box or the host is in danger, throughput falls below a tenth of the first step's, or a part of a step takes longer than %v.", b.StepLimit)), nil
}

// setsCluster reports whether a level of vm.page-cluster differs from the kernel's. That of a virtual
// machine is unknown before it has booted.
func (b *builder) setsCluster(n int) bool {
	_, boxing := b.on.(platform.Boxing)
	return n >= 0 && (boxing || b.Host.Cluster == nil || b.Host.Cluster() != strconv.Itoa(n))
}

// asking says how the neighbours are asked. A client that waits asks the less often the
// longer their answers take.
func (o Options) asking() string {
	what, to, pause := "a request", "the neighbours", o.Think
	if o.Burst > 1 {
		// As much longer pauses: the rate is the same.
		what, to, pause = fmt.Sprintf("%d requests at once", o.Burst), "one of the neighbours", time.Duration(o.Burst)*o.Think
	}
	if o.IdleClosed {
		return fmt.Sprintf("%s to %s %v after each answer of theirs", what, to, pause)
	}
	return fmt.Sprintf("%s every %v to %s", what, pause, to)
}

// builder makes the groups.
type builder struct {
	Options
	on       platform.Platform
	critical critical
	notes    kit.Notes
}

// daemon is the program of our memory extension.
const daemon = "annexd"

// extends reports whether a level has our memory extension, by whatever configuration.
func extends(level string) bool { return level != ExtendNone }

// findExtends refuses a memory extension that cannot be had.
func (b *builder) findExtends() error {
	if !slices.ContainsFunc(b.Extends, extends) {
		return nil
	}
	cannotMove := func(a levels) bool { return extends(a.extend) && a.swap == platform.SwapNone }
	if slices.ContainsFunc(b.policies(), cannotMove) {
		return kit.Usagef("--extend %s: it moves pages to swap, and --swap %s has none", ExtendAnnex, platform.SwapNone)
	}
	if _, inside := b.on.(platform.Boxing); inside {
		return kit.Usagef("--extend %s: the virtual machines that tare starts have no %s in them: choose a box on this host, such as --box 1g", ExtendAnnex, daemon)
	}
	if _, err := b.Host.Look(daemon); err != nil {
		return &platform.Missing{What: fmt.Sprintf("--extend %s: %v", ExtendAnnex, err), Mend: fmt.Sprintf("install %s (`make build` makes bin/%s), or leave --extend out", daemon, daemon)}
	}
	return nil
}

// findPlatform refuses a platform that this host lacks, or that has no groups.
func (b *builder) findPlatform() error {
	p, err := b.Host.FindFor(b.Platform, b.Base)
	if err != nil {
		return err
	}
	if g, ok := p.(platform.Grouping); ok {
		if err := g.Groups(context.Background()); err != nil {
			return err
		}
	}
	b.on = p
	if _, boxing := p.(platform.Boxing); boxing {
		return nil // its machine's kernel says what it can bear, when it has booted
	}
	if b.BoxKind == platform.BoxMachine {
		if !b.Disruptive {
			return kit.Usagef("--box host: all memory of this host would be used up, and all its programs would suffer: allow that by --disruptive, or choose --box vm:1g, a virtual machine of its own")
		}
		b.Box = b.Host.Memory
	}
	return nil
}

// findCritical reads the critical service.
func (b *builder) findCritical() error {
	c, err := readCritical(b.Options)
	if err != nil {
		return err
	}
	b.critical = c
	if c.need > b.Box {
		return kit.Usagef("--box %s: %s alone needs %s", sizeText(b.Box), c.name(), sizeText(c.need))
	}
	return nil
}

// findNoise reads a kind of neighbours.
func (b *builder) findNoise(s workload.Subject) (noise, error) {
	idling, ok := s.Workload.(workload.Idling)
	if !ok {
		return noise{}, kit.Usagef("--noise %s: it is no service that can be an idle neighbour: want some of %s", s.Workload.Name(), strings.Join(Noises(), ", "))
	}
	n := noise{workload: idling, subject: s, bytes: b.neighbourMemory(), firstPort: b.FirstPort}
	n.params = defaults(s)
	if _, ok := n.params[paramPort]; !ok {
		return noise{}, kit.Usagef("--noise %s: it has no parameter %s, so only one instance could run", s.Workload.Name(), paramPort)
	}
	var err error
	if n.params, err = idling.Sized(n.params, n.bytes); err != nil {
		return noise{}, b.missized("neighbour-memory", n.bytes, err)
	}
	ports := slices.Clone(b.critical.ports)
	for i := range b.most() {
		program, err := n.program(i)
		if err != nil {
			return noise{}, kit.Usagef("--noise %s: %v", s.Workload.Name(), err)
		}
		if i == 0 {
			n.need = max(program.MemoryNeed, n.bytes)
		}
		if b.sharesPorts() {
			for _, port := range program.Ports {
				if slices.Contains(b.critical.ports, port) {
					return noise{}, kit.Usagef("--first-port %d: neighbour %d would have port %d, which is %s's", b.FirstPort, i+1, port, b.critical.name())
				}
			}
		}
		ports = append(ports, program.Ports...)
	}
	if b.sharesPorts() && b.Host.CheckPorts != nil {
		if err := b.Host.CheckPorts(ports); err != nil {
			return noise{}, &platform.Missing{What: err.Error(), Mend: fmt.Sprintf("neighbours use the ports from %d on: choose others by --first-port", b.FirstPort)}
		}
	}
	if fits := b.critical.need + int64(b.Neighbours[0])*n.need; fits > b.Box {
		b.notes.Add("%s and %d of %s need %s, more than the box of %s: the first step, which all others are compared with, is under memory pressure already",
			b.critical.name(), b.Neighbours[0], s.Workload.Name(), sizeText(fits), sizeText(b.Box))
	}
	return n, nil
}

// sharesPorts reports whether all programs listen in one network.
func (b *builder) sharesPorts() bool {
	return b.Base.Network == "" || b.Base.Network == platform.NetworkHost
}

func (b *builder) neighbourMemory() int64 {
	if b.NeighbourMemory > 0 {
		return b.NeighbourMemory
	}
	return NeighbourShare(b.Box)
}

// levels are what makes a condition, but for its number of neighbours.
type levels struct {
	swap    platform.SwapKind
	cluster int
	protect platform.Protection
	extend  string
}

// label names what an arm has beside its swap: "file, page-cluster 0, swappiness".
func (a levels) label() string {
	parts := []string{string(a.swap)}
	if a.swap == platform.SwapNone {
		parts[0] = "no swap"
	}
	if a.cluster >= 0 {
		parts = append(parts, fmt.Sprintf("page-cluster %d", a.cluster))
	}
	if a.protect != platform.ProtectNone {
		parts = append(parts, string(a.protect))
	}
	if a.extend != ExtendNone {
		parts = append(parts, a.extend)
	}
	return strings.Join(parts, ", ")
}

// factors are the arm's levels.
func (a levels) factors() map[string]string {
	cluster := "as found"
	if a.cluster >= 0 {
		cluster = strconv.Itoa(a.cluster)
	}
	return map[string]string{
		FactorPolicy:  a.label(),
		FactorSwap:    string(a.swap),
		FactorProtect: string(a.protect),
		FactorCluster: cluster,
		FactorExtend:  a.extend,
	}
}

// policies lists the base and what differs from it in one factor, or all of them with all.
func (o Options) policies() []levels {
	base := levels{o.Swaps[0], o.Clusters[0], o.Protects[0], o.Extends[0]}
	if !o.Cross {
		all := []levels{base}
		for _, s := range o.Swaps[1:] {
			all = append(all, levels{s, base.cluster, base.protect, base.extend})
		}
		for _, c := range o.Clusters[1:] {
			all = append(all, levels{base.swap, c, base.protect, base.extend})
		}
		for _, p := range o.Protects[1:] {
			all = append(all, levels{base.swap, base.cluster, p, base.extend})
		}
		for _, e := range o.Extends[1:] {
			all = append(all, levels{base.swap, base.cluster, base.protect, e})
		}
		return all
	}
	var all []levels
	for _, s := range o.Swaps {
		for _, c := range o.Clusters {
			for _, p := range o.Protects {
				for _, e := range o.Extends {
					all = append(all, levels{s, c, p, e})
				}
			}
		}
	}
	return all
}

// group is the critical service beside one kind of neighbours.
func (b *builder) group(n noise, pattern load.Pattern) (lab.Group, error) {
	neighbours := n.subject.Workload.Name()
	if len(b.Patterns) > 1 {
		neighbours += " " + string(pattern)
	}
	g := lab.Group{Workload: b.critical.name() + " beside " + neighbours}
	counts := [][]int{b.Neighbours}
	if b.Order == Interleaved {
		counts = nil
		for _, count := range b.Neighbours {
			counts = append(counts, []int{count})
		}
	}
	for _, a := range b.policies() {
		spec, err := b.box(a, n)
		if err != nil {
			return g, err
		}
		for _, neighbours := range counts {
			t := trial{
				Options:    b.Options,
				critical:   b.critical,
				noise:      n,
				pattern:    pattern,
				box:        spec,
				neighbours: neighbours,
			}
			c := b.condition(g.Workload, a, n, pattern, t)
			c.Baseline = len(g.Conditions) == 0
			g.Conditions = append(g.Conditions, c)
		}
	}
	// One sweep is compared with nothing but itself: a second one is the next block's.
	g.Once = len(g.Conditions) == 1
	return g, nil
}

// box is an arm's, which this host can make.
func (b *builder) box(a levels, n noise) (platform.BoxSpec, error) {
	spec := platform.BoxSpec{
		Name: "check", Kind: b.BoxKind, Memory: b.Box, Swap: a.swap, PageCluster: a.cluster, Protect: a.protect,
	}
	if a.swap != platform.SwapNone {
		spec.SwapSize = b.swapSize(n)
	}
	if extends(a.extend) {
		spec.Extend, spec.ExtendConfig = platform.ExtendAnnex, b.ExtendConfigs[a.extend]
	}
	if a.protect == platform.ProtectLimit {
		spec.Reserve = b.critical.reserve(b.Box)
	}
	if _, boxing := b.on.(platform.Boxing); boxing || b.Host.CheckBox == nil {
		return spec, nil
	}
	if err := b.Host.CheckBox(spec); err != nil {
		return spec, fmt.Errorf("%s: %w", a.label(), err)
	}
	return spec, nil
}

// spare is how much larger swap is than what is to go there: programs are larger than what
// they hold, and slots are lost where pages that were read back keep theirs.
const spare = 1.25

// swapSize holds all that is in the box at the greatest number of neighbours: how much the
// kernel leaves in memory is what is asked.
func (b *builder) swapSize(n noise) int64 {
	if b.SwapSize > 0 {
		return b.SwapSize
	}
	all := float64(b.critical.need) + float64(b.most())*float64(n.need)
	return int64(spare*all)>>20<<20 + 64<<20
}

// condition lays out one condition.
func (b *builder) condition(group string, a levels, n noise, pattern load.Pattern, t trial) lab.Condition {
	label := a.label()
	factors := a.factors()
	maps.Copy(factors, map[string]string{
		FactorOrder:           b.Order,
		FactorNeighbours:      joined(t.neighbours),
		FactorNoise:           n.subject.Workload.Name() + " " + string(pattern),
		FactorBox:             string(b.BoxKind) + " " + sizeText(b.Box),
		factorNeighbourMemory: sizeText(n.bytes),
		factorThink:           b.Think.String(),
		factorStep:            b.Open.String() + "+" + b.Closed.String(),
		factorIdleLoop:        "open",
		factorBurst:           strconv.Itoa(b.Burst),
		factorSettle:          b.Settle.String(),
		factorWarm:            fmt.Sprintf("%d of %v", b.WarmRounds, b.Warm),
	})
	if b.IdleClosed {
		factors[factorIdleLoop] = "closed"
	}
	if b.DropCaches {
		factors[factorCaches] = "dropped"
	}
	if text := b.ExtendConfigs[a.extend]; text != "" {
		factors[FactorExtendConfig] = text
	}
	metrics := b.sweepMetrics(n)
	if b.Order == Interleaved {
		label = fmt.Sprintf("%s, %d", label, t.neighbours[0])
		metrics = stepMetrics("", histogramOpen, true)
	}
	c := lab.Condition{
		Condition: record.Condition{
			ID:                group + "@" + strings.ReplaceAll(label, ", ", ","),
			Label:             label,
			Workload:          group,
			Params:            b.critical.params,
			Platform:          b.Platform,
			Setting:           b.Base,
			Factors:           factors,
			Metrics:           metrics,
			NotRepresentative: platform.NotRepresentative(b.on),
		},
		Program:   b.critical.subject.Workload,
		Source:    b.critical.subject.Image(),
		Further:   []workload.Source{n.subject.Image()},
		Procedure: t.run,
		Limit:     b.limit(len(t.neighbours)),
	}
	c.Takes, c.Warms = takes(c), assumedStart+warmUpNeighbours*assumedNeighbour+4*warmUpLoad
	if c.NotRepresentative != "" {
		c.Takes, c.Warms = c.Takes*assumedEmulated, c.Warms*assumedEmulated
	}
	return c
}

// limit bounds a trial by what its steps may take: each is grown once, and its loads are
// made again where they are disturbed. Before and after them is what is no step's.
func (o Options) limit(steps int) time.Duration {
	return time.Duration(steps)*(1+lab.StepAttempts)*o.StepLimit + o.warming() + 2*(o.StepLimit+removalLimit)
}

// stepMetrics are those of a number of neighbours.
func stepMetrics(suffix, histogram string, primary bool) []workload.Metric {
	quantile := func(name string, q float64, primary bool) workload.Metric {
		return workload.Metric{
			Name:      name + suffix,
			Unit:      "us",
			Better:    workload.Lower,
			Quantile:  q,
			Histogram: histogram,
			Primary:   primary,
			Doc:       "latency of the critical service under a schedule, from the intended start",
		}
	}
	return []workload.Metric{
		quantile(MetricP99, 0.99, primary),
		{Name: MetricThroughput + suffix, Unit: "requests/s", Better: workload.Higher, Primary: primary, Doc: "requests that the critical service answers rightly to clients that wait for their answers"},
		quantile(MetricP50, 0.5, false),
	}
}

// AtNeighbours ends the name of a continuous condition's metric: "p99-n17".
func AtNeighbours(n int) string { return fmt.Sprintf("-n%d", n) }

// sweepMetrics are those of all numbers of neighbours. How precise a run is to be is asked
// of the first, and of the first at which memory is well short: that sweeps reach both is
// as good as certain, whatever is found.
func (b *builder) sweepMetrics(n noise) []workload.Metric {
	short := b.Neighbours[len(b.Neighbours)-1]
	for _, count := range b.Neighbours {
		if float64(b.critical.need)+float64(count)*float64(n.bytes) >= pressed*float64(b.Box) {
			short = count
			break
		}
	}
	var primary, others []workload.Metric
	for i, count := range b.Neighbours {
		chosen := i == 0 || count == short
		metrics := stepMetrics(AtNeighbours(count), stepName(count, "open"), chosen)
		if chosen {
			primary = append(primary, metrics...)
		} else {
			others = append(others, metrics...)
		}
	}
	return append(primary, others...)
}

// joined writes numbers as FactorNeighbours has them.
func joined(numbers []int) string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// What the parts of a trial take besides its loads: assumptions by which a pass is
// estimated.
const (
	assumedStart     = 8 * time.Second        // box, critical service, and their removal
	assumedNeighbour = 700 * time.Millisecond // launched and filled, those beside one another
	assumedEmulated  = 5                      // times as long
)

// warmingOf is how long a condition's service is warmed at most.
func warmingOf(c lab.Condition) time.Duration {
	number, round, _ := strings.Cut(c.Factors[factorWarm], " of ")
	rounds, rerr := strconv.Atoi(number)
	d, derr := time.ParseDuration(round)
	if rerr != nil || derr != nil {
		return 0 // of another design than this tare's
	}
	return time.Duration(rounds) * d
}

func takes(c lab.Condition) time.Duration {
	var both time.Duration
	for text := range strings.SplitSeq(c.Factors[factorStep]+"+"+c.Factors[factorSettle], "+") {
		if d, err := time.ParseDuration(text); err == nil {
			both += d
		}
	}
	counts := strings.Split(c.Factors[FactorNeighbours], ",")
	most, _ := strconv.Atoi(counts[len(counts)-1]) // the design wrote it
	return assumedStart + warmingOf(c) + time.Duration(len(counts))*both + time.Duration(most)*assumedNeighbour
}
