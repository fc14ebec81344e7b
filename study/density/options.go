package density

import (
	"errors"
	"fmt"
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
	// Critical is the service whose latency is watched: a workload.Loader, or an
	// Idling one, which then asks for its own objects.
	Critical workload.Subject
	// CriticalMemory is what a critical service holds that is Idling; 0 is 5/16 of the box.
	CriticalMemory int64
	// Rate is the open loop's at the critical service, in requests a second; 0 is the
	// workload's own, or DefaultRate.
	Rate float64

	// Noises are the idle neighbours' kinds: a group each, at each of Patterns.
	Noises   []workload.Subject
	Patterns []load.Pattern
	Think    time.Duration
	// IdleClosed has the neighbours' one client wait for its answers, as S3's did.
	IdleClosed bool
	Burst      int
	// Neighbours are their numbers, rising.
	Neighbours []int
	// NeighbourMemory is what each holds; 0 is S3's part of the box.
	NeighbourMemory int64
	// FirstPort is the first neighbour's; the others have the next ones.
	FirstPort int

	// Typed are sizes as the user wrote them, by their flags' names.
	Typed map[string]string

	Platform string // canonical name
	BoxKind  platform.BoxKind
	Box      int64 // bytes
	// Swaps, Clusters, Protects and Extends are the levels of the conditions' factors;
	// the first of each are the base condition's. A negative page-cluster is the kernel's
	// as found.
	Swaps    []platform.SwapKind
	Clusters []int
	Protects []platform.Protection
	Extends  []string
	// ExtendConfigs are the texts of configurations of annexd's, by their levels of
	// Extends: [ExtendAnnex], a colon, and a name.
	ExtendConfigs map[string]string
	Cross         bool // all of them with all, and not one at a time
	// SwapSize in bytes; 0 is what everything at the greatest number of neighbours takes.
	SwapSize int64

	Order string
	// Warm is the length of a round in which the critical service is loaded before the first
	// step, again and again until its throughput is steady or WarmRounds were made; Open and
	// Closed are how long it is loaded at each step, by a schedule and then by clients that
	// wait.
	Warm, Open, Closed time.Duration
	WarmRounds         int
	// Settle is how long it is loaded after neighbours were added, before anything
	// counts: what their coming pushed out of memory is not what their presence costs.
	Settle time.Duration
	// StepLimit ends a sweep whose step takes longer, the neighbours' launch included.
	StepLimit time.Duration
	// DropCaches has the host's page cache dropped before each step, as S3's script did.
	DropCaches bool
	Disruptive bool // allows what reaches beyond the box

	Base platform.Setting
	Plan record.Plan
	Seed int64
	Host Host
}

// Host is what the design must know of the machine, and what trials need of it.
type Host struct {
	kit.Host // as many neighbours are launched at a time as there are CPUs
	// CheckBox refuses a box that this host cannot make; nil refuses none.
	CheckBox func(spec platform.BoxSpec) error
	// CheckPorts refuses ports of this host that are served; nil refuses none.
	CheckPorts func(ports []int) error
	// Cluster is vm.page-cluster as it is, empty where that cannot be read; nil is not known.
	Cluster func() string
	// Look finds a program of ours beside tare's own, or on PATH.
	Look func(program string) (string, error)
	// Ahead puts tare, which is the client, ahead of the host's other programs
	// (lab.Ahead); nil leaves it among them.
	Ahead func(b lab.Bench) (restore func() error, err error)
	// DropCaches empties the host's page cache.
	DropCaches func() error
}

// ExtendNone is no memory extension, and ExtendAnnex ours; ExtendAnnex with a colon and a name
// behind it is ours by a configuration of that name.
const (
	ExtendNone  = "none"
	ExtendAnnex = "annex"
)

// Extends lists the memory extensions.
var Extends = []string{ExtendNone, ExtendAnnex}

// The defaults of a run of ten minutes, and S3's where it has them.
const (
	DefaultBox   = 1 << 30
	DefaultThink = 150 * time.Millisecond
	// DefaultRate is for a critical service whose parameters name no rate of an open loop.
	DefaultRate = 300
	// DefaultFirstPort is below the ports that the kernel hands out by itself, and above
	// those that the workloads have by default.
	DefaultFirstPort = 20001

	defaultWarm      = 3 * time.Second
	defaultRounds    = 6
	defaultOpen      = 4 * time.Second
	defaultClosed    = 2 * time.Second
	defaultSettle    = time.Second
	defaultStepLimit = time.Minute
)

// Default are the options of a run of ten minutes. Its steps lie close where memory runs
// out, and wide apart up to S3's 6.5 times the box.
func Default() Options {
	return Options{
		Patterns: []load.Pattern{load.RandomTarget}, Think: DefaultThink, Burst: 1, FirstPort: DefaultFirstPort,
		Neighbours: []int{1, 3, 5, 7, 9, 11, 13, 16, 19, 25, 33, 49},
		BoxKind:    platform.BoxGroup, Box: DefaultBox,
		Swaps: []platform.SwapKind{platform.SwapFile}, Clusters: []int{-1},
		Protects: []platform.Protection{platform.ProtectNone}, Extends: []string{ExtendNone},
		Order: Continuous, Warm: defaultWarm, WarmRounds: defaultRounds,
		Open: defaultOpen, Closed: defaultClosed, Settle: defaultSettle, StepLimit: defaultStepLimit,
	}
}

// Quick are those of a run of a minute.
func Quick() Options {
	o := Default()
	o.Neighbours = []int{1, 7, 13}
	o.Warm, o.WarmRounds, o.Open, o.Closed = 2*time.Second, 4, 2*time.Second, time.Second
	return o
}

// Full are S3's: every second number up to 49, one client that waits for its answers, and
// loads long enough for the slowest in a thousand.
func Full() Options {
	o := Default()
	o.Neighbours = nil
	for n := 1; n <= 49; n += 2 {
		o.Neighbours = append(o.Neighbours, n)
	}
	o.IdleClosed = true
	o.Open, o.Closed, o.StepLimit = 15*time.Second, 10*time.Second, 3*time.Minute
	return o
}

// mostNeighbours bounds a sweep: each is a container.
const mostNeighbours = 1000

// ParseNeighbours reads numbers of neighbours: a list such as "0,5,10", ranges such as
// "1:49:2" (from, to, step) and "1:5", or both. They come back rising.
func ParseNeighbours(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		var bounds []int
		for field := range strings.SplitSeq(strings.TrimSpace(part), ":") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 0 || n > mostNeighbours {
				return nil, kit.Usagef("--neighbours %s: want numbers of 0 to %d, such as 1:49:2 (from, to, step) or 0,5,10", text, mostNeighbours)
			}
			bounds = append(bounds, n)
		}
		from, to, step := bounds[0], bounds[0], 1
		switch len(bounds) {
		case 1:
		case 2:
			to = bounds[1]
		case 3:
			to, step = bounds[1], bounds[2]
		default:
			return nil, kit.Usagef("--neighbours %s: %q is not FROM:TO:STEP", text, part)
		}
		if step < 1 || to < from {
			return nil, kit.Usagef("--neighbours %s: %q does not rise", text, part)
		}
		for n := from; n <= to; n += step {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	if unique := slices.Compact(slices.Clone(all)); len(unique) != len(all) {
		return nil, kit.Usagef("--neighbours %s: name each number once", text)
	}
	return all, nil
}

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check() error {
	if len(o.Neighbours) == 0 {
		return kit.Usagef("--neighbours: want at least one number")
	}
	if o.most() == 0 {
		return kit.Usagef("--neighbours 0: want at least one number above 0, to compare the service alone with")
	}
	if len(o.Noises) == 0 {
		return kit.Usagef("--noise: want some of %s", strings.Join(Noises(), ", "))
	}
	for _, list := range []struct {
		flag string
		has  int
		want string
	}{
		{"--pattern", len(o.Patterns), listed(load.Patterns)}, {"--swap", len(o.Swaps), listed(platform.SwapKinds)},
		{"--page-cluster", len(o.Clusters), fmt.Sprintf("numbers from 0 to %d, such as 0,3", mostCluster)},
		{"--protect", len(o.Protects), listed(platform.Protections)}, {"--extend", len(o.Extends), strings.Join(Extends, ", ")},
	} {
		if list.has == 0 {
			return kit.Usagef("%s: want some of %s", list.flag, list.want)
		}
	}
	for _, p := range o.Patterns {
		if !slices.Contains(load.Patterns, p) {
			return kit.Usagef("--pattern %s: want some of %s", p, listed(load.Patterns))
		}
	}
	for _, s := range o.Swaps {
		if !slices.Contains(platform.SwapKinds, s) {
			return kit.Usagef("--swap %s: want some of %s", s, listed(platform.SwapKinds))
		}
	}
	for _, p := range o.Protects {
		if !slices.Contains(platform.Protections, p) {
			return kit.Usagef("--protect %s: want some of %s", p, listed(platform.Protections))
		}
	}
	for _, n := range o.Clusters {
		if n > mostCluster {
			return kit.Usagef("--page-cluster %d: want 0 to %d (2^n pages are read for one)", n, mostCluster)
		}
	}
	for _, e := range o.Extends {
		if _, configured := o.ExtendConfigs[e]; !slices.Contains(Extends, e) && !configured {
			return kit.Usagef("--extend %s: want some of %s, %s:FILE", e, strings.Join(Extends, ", "), ExtendAnnex)
		}
	}
	if err := firstError(twice("--noise", names(o.Noises)), twice("--pattern", o.Patterns), twice("--swap", o.Swaps),
		twice("--page-cluster", o.Clusters), twice("--protect", o.Protects), twice("--extend", o.Extends)); err != nil {
		return err
	}
	switch {
	case o.Order != Continuous && o.Order != Interleaved:
		return kit.Usagef("--order %s: want %s or %s", o.Order, Continuous, Interleaved)
	case o.Think < time.Microsecond || o.Think > time.Minute:
		return kit.Usagef("--think %v: want 1us to 1m", o.Think)
	case o.Burst < 1 || o.Burst > 1000:
		return kit.Usagef("--burst %d: want 1 to 1000 requests", o.Burst)
	case o.Open < leastLoad || o.Closed < leastLoad || o.Open > time.Hour || o.Closed > time.Hour:
		return kit.Usagef("--step %v+%v: want %v to 1h for each of the two loads", o.Open, o.Closed, leastLoad)
	case o.Settle < 0 || o.Settle > time.Hour || o.Settle > 0 && o.Settle < leastLoad:
		return kit.Usagef("--settle %v: want 0, or %v to 1h", o.Settle, leastLoad)
	case o.StepLimit < o.Open+o.Closed:
		return kit.Usagef("--step-limit %v: want at least %v, the time of the two loads of a step", o.StepLimit, o.Open+o.Closed)
	case o.Settle >= o.StepLimit:
		return kit.Usagef("--settle %v: a step is ended after %v: choose less, or a longer --step-limit", o.Settle, o.StepLimit)
	case o.Rate < 0 || o.Rate > 1e6:
		return kit.Usagef("--rate %g: want up to 1e6 requests a second", o.Rate)
	case o.FirstPort < 1 || o.FirstPort+o.most() > 65536:
		return kit.Usagef("--first-port %d: %d neighbours do not fit between there and port 65535", o.FirstPort, o.most())
	case o.DropCaches && !o.Disruptive:
		return kit.Usagef("--drop-caches empties the page cache of the whole host: allow that by --disruptive")
	case o.Base.Memory != 0:
		return kit.Usagef("--memory: set the memory of all programs together by --box")
	case o.Base.Network == platform.NetworkNone:
		return kit.Usagef("--network none: no client could reach the services")
	}
	return nil
}

// missized refuses a size that a service cannot have, in the flag's words.
func (o Options) missized(flag string, bytes int64, err error) error {
	what := fmt.Sprintf("--%s %s", flag, o.Typed[flag])
	if o.Typed[flag] == "" {
		what = fmt.Sprintf("--box %s: it makes --%s %s", sizeFlag(o.Box), flag, sizeFlag(bytes))
	}
	if wrong := (*workload.WrongSize)(nil); errors.As(err, &wrong) {
		return kit.Usagef("%s: want %s to %s", what, sizeFlag(wrong.Least), sizeFlag(wrong.Most))
	}
	return kit.Usagef("%s: %v", what, err)
}

// sizeFlag writes bytes as a flag takes them: "136m", "680k".
func sizeFlag(bytes int64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{40, "t"}, {30, "g"}, {20, "m"}, {10, "k"}} {
		if bytes != 0 && bytes%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d%s", bytes>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%db", bytes)
}

// most is the greatest number of neighbours.
func (o Options) most() int {
	if len(o.Neighbours) == 0 {
		return 0
	}
	return slices.Max(o.Neighbours)
}

// leastLoad is the shortest load that a step may have.
const leastLoad = 100 * time.Millisecond

// mostCluster is the kernel's bound of vm.page-cluster (page_cluster_max in mm/swap.c).
const mostCluster = 31

func twice[T comparable](flag string, values []T) error {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return kit.Usagef("%s: %v is listed twice", flag, v)
		}
	}
	return nil
}

func names(subjects []workload.Subject) []string {
	var all []string
	for _, s := range subjects {
		all = append(all, s.Workload.Name())
	}
	return all
}

// listed writes the values that a flag takes.
func listed[T ~string](values []T) string {
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	return strings.Join(all, ", ")
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sizeText writes bytes as people say them: "1 GiB", "136 MiB".
func sizeText(bytes int64) string {
	switch {
	case bytes >= 1<<30 && bytes%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
