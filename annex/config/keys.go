package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tare/annex"
)

// section is a table of the file, with its keys.
type section struct {
	name string // empty for what stands above all tables
	doc  string
	keys []key[Config]
}

const (
	kibibyte = int64(1) << 10
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
	tebibyte = int64(1) << 40
	terabyte = int64(1e12)
)

func restarts(k key[Config]) key[Config] {
	k.fixed = true
	return k
}

// sections are the file's, in its order.
var sections = []section{
	{"", "", []key[Config]{
		choiceKey("mode", "Whether what is decided is done. observe decides and logs, and moves nothing; manage does it.",
			[]Mode{Observe, Manage}, func(c *Config) *Mode { return &c.Mode }),
	}},
	{"memory", "What is defended, and how much of it is kept free.", []key[Config]{
		restarts(textKey("defend", `"host", or the path of a control group`,
			"Whose memory must not run out: the host's, or that of a control group with everything below it, by its path below the hierarchy's root. Elastic containers that lie elsewhere are then left alone.", "host",
			false, defended, func(c *Config) *string { return &c.Memory.Defend })),
		sizeKey("headroom", "Free memory below which containers' pages leave. It has to hold what is taken faster than pages can leave, or critical containers reclaim for themselves.",
			mebibyte, tebibyte, func(c *Config) *int64 { return &c.Memory.Headroom }),
		sizeKey("high", "Free memory at which that ends. Not below headroom; left out, where headroom is above "+FormatSize(Default().Memory.High)+", it is one and a half times headroom.",
			mebibyte, tebibyte, func(c *Config) *int64 { return &c.Memory.High }),
		sizeKey("reserve", "Free memory that pages coming back leave alone, but for those that an awake container is about to use by a record that has proved precise. Below headroom; left out, where headroom is no more than "+FormatSize(Default().Memory.Reserve)+", it is a quarter of headroom.",
			0, tebibyte, func(c *Config) *int64 { return &c.Memory.Reserve }),
		shareKey("swap_reserve", "The share of swap that is left to the kernel and to others.",
			0, 0.9, func(c *Config) *float64 { return &c.Memory.SwapReserve }),
	}},
	{"pressure", "How much of the time tasks may wait for memory (the kernel's pressure stall information, \"some\").", []key[Config]{
		restarts(shareKey("critical", "Above it, of any critical container, all eviction stops.",
			0.0001, 1, func(c *Config) *float64 { return &c.Pressure.Critical })),
		durationKey("stop_within", "The time within which it has stopped.",
			100*time.Millisecond, 10*time.Second, func(c *Config) *time.Duration { return &c.Pressure.StopWithin }),
		shareKey("elastic", "Towards it, less and less of an elastic container leaves; at it, nothing.",
			0.0001, 1, func(c *Config) *float64 { return &c.Pressure.Elastic }),
		durationKey("window", "Over what pressure is averaged for that.",
			time.Second, 10*time.Minute, func(c *Config) *time.Duration { return &c.Pressure.Window }),
	}},
	{"protect", "Settings of control groups that are changed in mode manage. Each is journalled first, and put back.", []key[Config]{
		switchKey("critical", "Keep the kernel from swapping critical containers: memory.swappiness 0 (version 1), memory.low (version 2).",
			func(c *Config) *bool { return &c.Protect.Critical }),
		switchKey("reclaim", "Have evicted pages leave memory at once: memory.reclaim (version 2); on version 1 the container's limit is lowered for milliseconds, under a guard that puts it back whatever happens.",
			func(c *Config) *bool { return &c.Protect.Reclaim }),
	}},
	{"scan", "How often page tables are looked at: more seldom while nothing changes.", []key[Config]{
		durationKey("least", "The shortest time between two looks at a container.",
			100*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.Scan.Least }),
		durationKey("most", "The longest. Not below least.",
			100*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.Scan.Most }),
	}},
	{"activity", "What is work, and what is sleep.", []key[Config]{
		restarts(durationKey("dormancy", "How long a container does not run until it is said to sleep.",
			10*time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Activity.Dormancy })),
		durationKey("probe_cpu", "A container that woke and used less CPU time was only asked whether it is well.",
			0, 10*time.Second, func(c *Config) *time.Duration { return &c.Activity.ProbeCPU }),
		countKey("probe_pages", "Unless it wanted so many pages back.",
			1, 1<<20, func(c *Config) *int { return &c.Activity.ProbePages }),
	}},
	{"cold", "When pages count as cold. Those leave first when memory is short, or room is wanted for what comes back.", []key[Config]{
		durationKey("after", "How long a page is not used at least until it is cold. The threshold itself is found for each container.",
			time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.Cold.After }),
		shareKey("promotion_rate", "The share of its working set that a container may want back in a minute: what the threshold is found by.",
			0.0001, 0.5, func(c *Config) *float64 { return &c.Cold.PromotionRate }),
		durationKey("working", "Pages used within it are the working set.",
			time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.Cold.Working }),
	}},
	{"predictors", "What tells when a container wakes, and what it then touches. Each is scored while it runs.", []key[Config]{
		restarts(switchKey("record", "Which pages an activation touches.", func(c *Config) *bool { return &c.Predictors.Record })),
		restarts(switchKey("intervals", "When the next activation comes.", func(c *Config) *bool { return &c.Predictors.Intervals })),
		restarts(switchKey("followers", "Which container wakes after one.", func(c *Config) *bool { return &c.Predictors.Followers })),
		restarts(shareKey("threshold", "The share of its predictions that has to come true for one to be listened to.",
			0, 0.9, func(c *Config) *float64 { return &c.Predictors.Threshold })),
	}},
	{"prefetch", "How pages come back.", []key[Config]{
		durationKey("lead", "How long before it is expected a container's memory is to be there, beside the time that bringing it takes.",
			0, time.Minute, func(c *Config) *time.Duration { return &c.Prefetch.Lead }),
		restarts(countKey("chunk", "How many pages are asked for at once: between chunks, what programs wait for goes first.",
			8, 512, func(c *Config) *int { return &c.Prefetch.Chunk })),
		shareKey("map_precision", "From which precision pages that every activation touched are mapped too, so that using them costs nothing; 100% for hardly ever.",
			0.5, 1, func(c *Config) *float64 { return &c.Prefetch.MapPrecision }),
	}},
	{"control", "How the daemon is spoken to. Root alone may.", []key[Config]{
		restarts(textKey("socket", "a path", "The Unix socket for annex status and the other commands.", Socket,
			false, address, func(c *Config) *string { return &c.Control.Socket })),
		restarts(textKey("metrics", "a loopback address with its port, or nothing", "Where metrics for Prometheus are served: \"127.0.0.1:9464\", say. Whoever is on the host may read them.", "127.0.0.1:9464",
			true, loopback, func(c *Config) *string { return &c.Control.Metrics })),
	}},
	{"log", "The log of decisions: one JSON object a line.", []key[Config]{
		restarts(textKey("file", "a path, or nothing", "Where it lies; nothing keeps none.", "/var/log/annex/decisions.jsonl",
			true, absolute, func(c *Config) *string { return &c.Log.File })),
		restarts(sizeKey("size", "At which size it is put aside.", 64*kibibyte, 16*gibibyte, func(c *Config) *int64 { return &c.Log.Size })),
		restarts(countKey("keep", "How many that were put aside are kept.", 0, 100, func(c *Config) *int { return &c.Log.Keep })),
	}},
	{"state", "What has to outlive the daemon.", []key[Config]{
		restarts(textKey("directory", "a path", "Where the account of writes and the lock lie.", "/var/lib/annex",
			false, absolute, func(c *Config) *string { return &c.State.Directory })),
		restarts(textKey("journal", "a path", "The journal of changed settings: in memory, so that nothing waits for a disk; no setting outlives the kernel.", "/run/annex/journal",
			false, absolute, func(c *Config) *string { return &c.State.Journal })),
	}},
}

const patterns = "a [pattern](#patterns)"

// ruleKeys are those of a [[rule]].
var ruleKeys = []key[Rule]{
	choiceKey("class", "What is done with the containers: nothing of a critical one moves, and its pressure stops all eviction; an elastic one is managed; an ignored one is neither.",
		annex.Classes, func(r *Rule) *annex.Class { return &r.Class }),
	patternKey("name", patterns, "The container's name.", "web-*", patterned, func(r *Rule) *string { return &r.Name }),
	patternKey("label", "a label's name, or name=[pattern](#patterns)", "A label of the container.", "tier=idle", labelled, func(r *Rule) *string { return &r.Label }),
	patternKey("image", patterns, "The image, as whoever started it wrote it.", "redis:*", patterned, func(r *Rule) *string { return &r.Image }),
	patternKey("cgroup", patterns+"; beginning with /", "The path of its control group, in any hierarchy, or the directory.", "/idle/*", rooted, func(r *Rule) *string { return &r.Cgroup }),
}

// tierKeys are those of a [[tier]].
var tierKeys = []key[Tier]{
	patternKey("area", "a path", "The swap file or device, as /proc/swaps names it.", "/var/swap", absolute, func(t *Tier) *string { return &t.Area }),
	boundKey("write_rate", "The most that is written to it a second.", "/s", "100MiB/s", 64*kibibyte, tebibyte, func(t *Tier) *int64 { return &t.WriteRate }),
	boundKey("write_daily", "The most that is written to it a day (UTC).", "", "200GB", mebibyte, 1000*tebibyte, func(t *Tier) *int64 { return &t.WriteDaily }),
	boundKey("endurance", "What may be written to it in its life (its data sheet's TBW): spread evenly over years, the least of this and write_daily holds.", "", "600TB", gibibyte, math.MaxInt64/terabyte*terabyte, func(t *Tier) *int64 { return &t.Endurance }),
	yearsKey(),
}

func yearsKey() key[Tier] {
	const least, most = 0.1, 100
	return key[Tier]{
		name: "years", values: "a number from 0.1 to 100", doc: "How many years it is to last. Goes with endurance.",
		set: func(t *Tier, value any) error {
			var years float64
			switch v := value.(type) {
			case int64:
				years = float64(v)
			case float64:
				years = v
			default:
				return fmt.Errorf("is %s: want a number of years", kindOf(value))
			}
			if !(years >= least && years <= most) {
				return fmt.Errorf("is %v: want 0.1 to 100", years)
			}
			t.Years = years
			return nil
		},
		get: func(t *Tier) string {
			if t.Years == 0 {
				return ""
			}
			return strconv.FormatFloat(t.Years, 'f', -1, 64)
		},
	}
}

func defended(s string) error {
	if s == Host {
		return nil
	}
	if s == "/" || absolute(s) != nil {
		return fmt.Errorf("is %q: want \"host\", or a control group's path as \"/machine.slice\"", s)
	}
	return nil
}

func rooted(s string) error {
	if !strings.HasPrefix(s, "/") || s == "/" {
		return fmt.Errorf("is %q: want a path from / on, as \"/idle/*\"", s)
	}
	if strings.HasSuffix(s, "/") {
		return fmt.Errorf("is %q, and no group's path ends in /: want %q, or %q for what is in it", s, strings.TrimSuffix(s, "/"), s+"*")
	}
	return patterned(s)
}

func patterned(s string) error {
	if _, err := parsePattern(s); err != nil {
		return fmt.Errorf("is %q, with %w", s, err)
	}
	return nil
}

func labelled(s string) error {
	name, value, _ := strings.Cut(s, "=")
	if name == "" {
		return fmt.Errorf("is %q: want a label's name, or name=pattern", s)
	}
	return patterned(value)
}

// loopback refuses addresses that others could reach: there is no asking who reads.
func loopback(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("is %q: want an address with its port, as \"127.0.0.1:9464\"", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("is %q: its port is to be from 1 to 65535", s)
	}
	// A name may be anyone's by the time that it is looked up.
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("is %q: only a loopback address is served, 127.0.0.1 or [::1]: have a proxy there for others", s)
	}
	return nil
}
