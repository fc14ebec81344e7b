package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Medium is what swapping costs, in microseconds.
type Medium struct {
	Name string `json:"name"`
	// Demand is how long a fault waits for its page alone.
	Demand float64 `json:"demand_us"`
	// Minor is the fault on a page that is in memory and not mapped.
	Minor float64 `json:"minor_us"`
	// Contiguous, Short and Scattered are for a page that is read ahead: in a long run of places
	// in swap, in runs of four, and alone.
	Contiguous float64 `json:"contiguous_us"`
	Short      float64 `json:"short_us"`
	Scattered  float64 `json:"scattered_us"`
	// Write is for a page that leaves; Drop for one whose copy in swap is good.
	Write float64 `json:"write_us"`
	Drop  float64 `json:"drop_us"`
	// Map is for mapping a page that is in memory.
	Map float64 `json:"map_us"`
	// Memory tells that it is compressed memory: nothing queues for it.
	Memory bool `json:"memory"`
	// Ratio is how many pages it holds in one of memory, where it is Memory.
	Ratio float64 `json:"ratio,omitempty"`
}

// The presets. Reading was measured on a virtual machine of two cores, a file on a disk and
// zram with lz4: medians of demand faults, and of process_madvise(MADV_WILLNEED) a page. Write is what
// bulk eviction took there. Drop is a page given up without input or output, Minor and Map the
// short fault and process_vm_readv. zram's ratio is what lz4 is commonly said to reach and was not
// measured: calibrate it where it matters.
var presets = []Medium{
	{Name: "file", Demand: 54, Minor: 1, Contiguous: 2.4, Short: 3.2, Scattered: 10, Write: 5, Drop: 0.5, Map: 1.4},
	{
		Name:       "zram",
		Demand:     6.5,
		Minor:      1,
		Contiguous: 4.8,
		Short:      5.4,
		Scattered:  7.6,
		Write:      7,
		Drop:       0.5,
		Map:        1.4,
		Memory:     true,
		Ratio:      3,
	},
}

// Media names the presets.
func Media() []string {
	var names []string
	for _, m := range presets {
		names = append(names, m.Name)
	}
	return names
}

// Preset gives one by its name.
func Preset(name string) (Medium, error) {
	for _, m := range presets {
		if m.Name == name {
			return m, nil
		}
	}
	return Medium{}, fmt.Errorf("there is no medium %q: want one of %q, or a file", name, Media())
}

// ParseMedium reads what was calibrated, as JSON.
func ParseMedium(r io.Reader) (Medium, error) {
	var m Medium
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(&m)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return Medium{}, fmt.Errorf("a medium: %w", err)
	}
	return m, nil
}

// mostMicros bounds what a page takes: a second.
const mostMicros = 1e6

// Check tells what is wrong with a medium.
func (m Medium) Check() error {
	for _, v := range []struct {
		name  string
		value float64
		least float64
	}{
		{"demand_us", m.Demand, 0.001}, {"minor_us", m.Minor, 0}, {"contiguous_us", m.Contiguous, 0.001}, {"short_us", m.Short, 0.001},
		{"scattered_us", m.Scattered, 0.001}, {"write_us", m.Write, 0.001}, {"drop_us", m.Drop, 0}, {"map_us", m.Map, 0},
	} {
		if !(v.value >= v.least && v.value <= mostMicros) {
			return fmt.Errorf("%s is %v: want %v to %v", v.name, v.value, v.least, mostMicros)
		}
	}
	if m.Memory && !(m.Ratio >= 1 && m.Ratio <= 1000) {
		return fmt.Errorf("ratio is %v: want 1 to 1000", m.Ratio)
	}
	return nil
}

// Grain is the medium for pages that stand for n each: an extent is brought and taken as a whole.
func (m Medium) Grain(n int) Medium {
	more := float64(n - 1)
	m.Demand += more * m.Contiguous
	m.Scattered += more * m.Contiguous
	m.Short = m.Contiguous*more + m.Short
	m.Contiguous *= float64(n)
	m.Write *= float64(n)
	m.Drop *= float64(n)
	m.Map *= float64(n)
	m.Minor *= float64(n)
	return m
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

// short is the length of the runs that Short is for.
const short = 4

// read is what a run of consecutive places takes: what one page takes, then as much more as was
// measured for runs of four, then that of long ones.
func (m Medium) read(pages int) float64 {
	if pages >= short {
		return short*m.Short + float64(pages-short)*m.Contiguous
	}
	each := (short*m.Short - m.Scattered) / (short - 1)
	return m.Scattered + float64(pages-1)*max(each, 0)
}

// bridged is how many places between two runs are read along rather than sought over.
const bridged = 2

// fetch is what it takes to read ahead the places, ascending.
func (m Medium) fetch(places []int32) time.Duration {
	total := 0.0
	for i := 0; i < len(places); {
		n := 1
		for i+n < len(places) && places[i+n]-places[i+n-1] <= bridged+1 {
			n++
		}
		total += m.read(int(places[i+n-1]-places[i]) + 1)
		i += n
	}
	return micros(total)
}

// device does one thing at a time, what is urgent first; or everything at once.
type device struct {
	world        *world
	busy         bool
	urgent, bulk []job
	used         time.Duration
}

// job is something to be done: begin says how long it takes, when it is its turn.
type job struct {
	begin func() time.Duration
	done  func()
}

func (d *device) do(j job, urgent bool) {
	if d.world.host.Medium.Memory {
		d.run(j)
		return
	}
	if urgent {
		d.urgent = append(d.urgent, j)
	} else {
		d.bulk = append(d.bulk, j)
	}
	d.next()
}

func (d *device) next() {
	if d.busy {
		return
	}
	lane := &d.urgent
	if len(*lane) == 0 {
		lane = &d.bulk
	}
	if len(*lane) == 0 {
		return
	}
	j := (*lane)[0]
	*lane = (*lane)[1:]
	d.busy = true
	d.run(j)
}

func (d *device) run(j job) {
	w := d.world
	took := j.begin()
	d.used += took
	w.at(w.now.After(took), func() {
		d.busy = false
		j.done()
		d.next()
	})
}
