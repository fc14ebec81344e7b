package pagetable

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"tare/kernel/pagemap"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

// Rates of which SPECIFICATION.md speaks. Each is reported beside the rate of what
// it is held to, read in turns with it in the same run; of both the median
// counts, since the host has other work. Ratios are reported of time elapsed, and of CPU time,
// which other work does not lengthen and a second reader does not shorten.

const bigMebibytes = "2048"

func takerNamed(b *testing.B, name string) Taker {
	b.Helper()
	all := takers(b)
	i := slices.IndexFunc(all, func(t Taker) bool { return t.Name() == name })
	if i < 0 {
		b.Skip("no back end " + name)
	}
	return all[i]
}

// cost is what something took.
type cost struct{ elapsed, cpu time.Duration }

// costs measures do.
func costs(b *testing.B, all *[]cost, do func()) {
	b.Helper()
	cpu := func() time.Duration {
		used, err := process.CPUTime()
		if err != nil {
			b.Fatal(err)
		}
		return used
	}
	before, begun := cpu(), time.Now()
	do()
	*all = append(*all, cost{time.Since(begun), cpu() - before})
}

// median is that of each.
func median(all []cost) (m cost) {
	var elapsed, cpu []time.Duration
	for _, c := range all {
		elapsed, cpu = append(elapsed, c.elapsed), append(cpu, c.cpu)
	}
	slices.Sort(elapsed)
	slices.Sort(cpu)
	return cost{elapsed[len(all)/2], cpu[len(all)/2]}
}

// report reports the rate of n, and what part it is of the rate of what is raw.
func report(b *testing.B, unit string, n uint64, ours, raw []cost, of string) {
	b.Helper()
	m, r := median(ours), median(raw)
	b.ReportMetric(rate(n, m.elapsed)/1e6, "M"+unit+"/s")
	b.ReportMetric(float64(r.elapsed)/float64(m.elapsed), "of-"+of)
	b.ReportMetric(float64(r.cpu)/float64(m.cpu), "of-"+of+"-cpu")
}

func rate(n uint64, d time.Duration) float64 { return float64(n) / d.Seconds() }

func BenchmarkWalkEntries(b *testing.B) {
	taker := takerNamed(b, "page tables")
	h := start(b, "big", bigMebibytes, "1")
	var n uint64
	var ours []cost
	for b.Loop() {
		costs(b, &ours, func() { n = take(b, taker, false, h.pid).Entries() })
	}
	b.ReportMetric(rate(n, median(ours).elapsed)/1e6, "Mentries/s")
	b.ReportMetric(rate(n, median(ours).cpu)/1e6, "Mentries/cpu-s")
}

func BenchmarkWalkFlags(b *testing.B) {
	taker := takerNamed(b, "page tables")
	h := start(b, "big", bigMebibytes, "1")
	var ours, raw []cost
	// Every page of the helper's has a frame of its own, but for a few.
	unique := h.at["big"].pages
	for b.Loop() {
		costs(b, &ours, func() { take(b, taker, true, h.pid) })
		costs(b, &raw, func() { rawFlags(b, unique) })
	}
	report(b, "frames", unique, ours, raw, "kpageflags")
}

// rawFlags reads the flags of as many frames as the helper has, one after the
// other from the middle of memory on, and does nothing with them: as fast as
// the kernel reports them.
func rawFlags(b *testing.B, frames uint64) {
	b.Helper()
	f, err := os.Open("/proc/kpageflags")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	most, err := pagemap.MaxFrame(f)
	if err != nil {
		b.Fatal(err)
	}
	buffer := make([]byte, 1<<20)
	for at, end := (most-frames)/2, (most+frames)/2; at < end; at += uint64(len(buffer) / 8) {
		if _, err := f.ReadAt(buffer[:8*min(end-at, uint64(len(buffer)/8))], int64(at*8)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFiles(b *testing.B) {
	taker := takerNamed(b, "pagemap")
	h := start(b, "big", bigMebibytes, "1")
	var ours, raw []cost
	var n uint64
	for b.Loop() {
		costs(b, &ours, func() { n = take(b, taker, false, h.pid).Entries() })
		costs(b, &raw, func() { rawPagemap(b, h) })
	}
	report(b, "entries", n, ours, raw, "pagemap")
}

func rawPagemap(b *testing.B, h *helper) {
	b.Helper()
	f, err := os.Open(procfs.Host.Process(h.pid).Path("pagemap"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buffer := make([]byte, 8*chunk)
	big := h.at["big"]
	for page := big.page; page < big.page+big.pages; page += chunk {
		if _, err := f.ReadAt(buffer[:8*min(chunk, big.page+big.pages-page)], int64(page*8)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkManyContainers is a census of 200 processes of 100 MiB each.
func BenchmarkManyContainers(b *testing.B) {
	h := start(b, "big", "100", "200")
	pids := append([]int{h.pid}, h.pids["child"]...)
	for _, taker := range takers(b) {
		b.Run(taker.Name(), func(b *testing.B) {
			var n uint64
			for b.Loop() {
				c := take(b, taker, true, pids...)
				if len(c.Spaces) != len(pids) {
					b.Fatalf("%d of %d counted", len(c.Spaces), len(pids))
				}
				n = c.Entries()
			}
			b.ReportMetric(float64(n)/1e6, "Mentries")
		})
	}
}

// BenchmarkMemory reports how many bytes a census takes for each entry.
func BenchmarkMemory(b *testing.B) {
	taker := takers(b)[0]
	big := start(b, "big", "512", "1")
	many := start(b, "many", "300")
	for _, c := range []struct {
		name string
		pids []int
	}{
		{"one mapping", []int{big.pid}},
		{"ourselves", []int{os.Getpid()}},
		{"300 small processes", append([]int{many.pid}, many.pids["child"]...)},
		{"a JVM", jvm(b)},
	} {
		if len(c.pids) == 0 {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			var bytes, runs, entries uint64
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				found := take(b, taker, true, c.pids...)
				runtime.GC()
				runtime.ReadMemStats(&after)
				bytes, entries, runs = after.HeapAlloc-before.HeapAlloc, found.Entries(), 0
				for i := range found.Spaces {
					runs += uint64(len(found.Spaces[i].Runs))
				}
				runtime.KeepAlive(found)
			}
			b.ReportMetric(float64(bytes)/float64(entries), "bytes/entry")
			b.ReportMetric(float64(entries)/float64(runs), "entries/run")
		})
	}
}

// jvm starts one that compiles a program and runs it; none where there is none.
func jvm(b *testing.B) []int {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil
	}
	file := b.TempDir() + "/Idle.java"
	program := `class Idle { public static void main(String[] a) throws Exception {
		var m = new java.util.HashMap<Integer, byte[]>(); for (int i = 0; i < 50000; i++) m.put(i, new byte[2000]);
		System.out.println("ready"); System.in.read(); } }`
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(java, file)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		b.Logf("java does not run: %v", err)
		return nil
	}
	return []int{cmd.Process.Pid}
}

// BenchmarkDecode is the walk's own work, without the kernel's.
func BenchmarkDecode(b *testing.B) {
	format := layout{levels: 4, physical: x86Frame}.format(1)
	words := make([]uint64, tableEntries)
	for i := range words {
		words[i] = uint64(i+2)<<12 | x86Present | x86Writable | x86Accessed | x86Dirty
	}
	to := make([]Entry, tableEntries)
	for b.Loop() {
		format.decodeTable(words, to, mixedFrames)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tableEntries, "ns/entry")
}

// BenchmarkApplyFlags is the flagger's own work: the file is in memory.
func BenchmarkApplyFlags(b *testing.B) {
	words := make([]uint64, 8*blockFrames)
	for i := range words {
		words[i] = uint64(pagemap.Anon | pagemap.LRU | pagemap.Active)
	}
	f := &flagger{file: flagsFile(words).ReaderAt, frames: uint64(len(words))}
	entries := make([]Entry, len(words))
	for i := range entries {
		entries[i] = Present | Entry(i)
	}
	for b.Loop() {
		if err := f.flag(b.Context(), []Space{{Runs: []Run{{Entries: entries}}}}, true); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(words)), "ns/entry")
}
