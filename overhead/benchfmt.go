package overhead

import (
	"bufio"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/record"
	"tare/workload"
)

// Benchfmt writes a run in the Go benchmark format
// (golang.org/x/perf/benchfmt), which benchstat reads:
//
//	BenchmarkRedis/platform=docker/network=bridge/metric=get 1 69000 requests/s
//
// One line stands for one valid trial and metric of the last attempt at a
// block; tainted blocks and the warm-up are left out, since the format has no
// place for them that every reader heeds. In a run of rounds of slices a line stands for one
// round, condition and metric, over the untainted strips of its instances. benchstat takes the trials for
// independent: it sees neither pairs nor blocks, so its intervals are wider
// than tare's.
func Benchfmt(w io.Writer, run record.Run) error {
	out := bufio.NewWriter(w)
	config := func(key, value string) {
		if value = strings.Join(strings.Fields(value), " "); value != "" {
			fmt.Fprintf(out, "%s: %s\n", key, value)
		}
	}
	config("run", run.ID)
	config("study", run.Study)
	config("tare", run.Version)
	config("seed", strconv.FormatInt(run.Seed, 10))
	if !run.Started.IsZero() {
		config("started", run.Started.UTC().Format("2006-01-02T15:04:05Z"))
	}
	config("goos", "linux")
	config("goarch", run.Host.Arch)
	config("cpu", run.Host.CPUModel)
	if run.Host.CPUs > 0 {
		config("cpus", strconv.Itoa(run.Host.CPUs))
	}
	config("os", run.Host.OS)
	config("kernel", run.Host.Kernel)
	config("cgroup", run.Host.Cgroup)
	config("virtual", run.Host.Virtual)

	groups := layouts(run, Options{}.from(run))
	for _, line := range unitLines(groups) {
		fmt.Fprintln(out, line)
	}
	for _, l := range groups {
		names := benchmarkNames(l)
		for i := range l.blocks {
			b := &l.blocks[i]
			if b.tainted {
				continue
			}
			for _, c := range l.conditions {
				for _, m := range c.Metrics {
					if !l.rounds {
						break
					}
					if f, ok := b.figure(c.ID, m); ok && !b.disturbed {
						fmt.Fprintf(
							out,
							"%s/metric=%s 1 %s %s\n",
							names[c.ID],
							lastPart(m.Name),
							strconv.FormatFloat(f.value, 'g', -1, 64),
							unit(m),
						)
					}
				}
				for replicate := range 2 {
					for _, m := range c.Metrics {
						if value, ok := b.cells[place{c.ID, replicate}].value(m); ok {
							fmt.Fprintf(
								out,
								"%s/metric=%s 1 %s %s\n",
								names[c.ID],
								lastPart(m.Name),
								strconv.FormatFloat(value, 'g', -1, 64),
								unit(m),
							)
						}
					}
				}
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write run %s for benchstat: %w", run.ID, err)
	}
	return nil
}

// unitLines tell which direction of a unit is better, where all metrics of
// that unit agree.
func unitLines(groups []*layout) []string {
	better := map[string]workload.Better{}
	const mixed = workload.Better("")
	for _, l := range groups {
		for _, m := range l.metrics {
			if known, ok := better[unit(m)]; ok && known != m.Better {
				better[unit(m)] = mixed
			} else if !ok {
				better[unit(m)] = m.Better
			}
		}
	}
	var lines []string
	for u, b := range better {
		if b != mixed {
			lines = append(lines, fmt.Sprintf("Unit %s better=%s", u, b))
		}
	}
	sort.Strings(lines)
	return lines
}

// benchmarkNames names each condition by its platform, its setting, and those
// parameters and images in which the workload's conditions differ.
func benchmarkNames(l *layout) map[string]string {
	differs := map[string]bool{}
	for _, c := range l.conditions {
		first := l.conditions[0]
		for _, pair := range []record.Condition{first, c} {
			for key := range pair.Params {
				if first.Params[key] != c.Params[key] {
					differs[key] = true
				}
			}
		}
		if c.ImageRef != first.ImageRef {
			differs["image"] = true
		}
	}
	taken := map[string]bool{}
	names := map[string]string{}
	for _, c := range l.conditions {
		var name strings.Builder
		name.WriteString("Benchmark" + capitalised(part(l.workload)) + "/platform=" + part(c.Platform))
		for _, p := range c.Setting.Pairs() {
			name.WriteString("/" + p.Key + "=" + part(p.Value))
		}
		keys := make([]string, 0, len(c.Params))
		for key := range c.Params {
			if differs[key] {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		for _, key := range keys {
			name.WriteString("/" + part(key) + "=" + part(c.Params[key]))
		}
		if differs["image"] {
			name.WriteString("/image=" + part(c.ImageRef))
		}
		if taken[name.String()] { // by something that none of these say
			name.WriteString("/condition=" + part(c.ID))
		}
		taken[name.String()] = true
		names[c.ID] = name.String()
	}
	return names
}

// part is text as part of a benchmark's name: without white space and slashes.
func part(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '/' {
			return '_'
		}
		return r
	}, s)
}

// lastPart keeps the end of a name from being read as GOMAXPROCS ("-8").
func lastPart(s string) string {
	s = part(s)
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		if _, err := strconv.ParseUint(s[i+1:], 10, 64); err == nil {
			return s[:i] + "_" + s[i+1:]
		}
	}
	return s
}

func unit(m workload.Metric) string {
	u := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, m.Unit)
	if u == "" {
		return part(m.Name)
	}
	return u
}

func capitalised(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
