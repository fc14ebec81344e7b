package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"tare/load"
)

// The mix that S1's services were driven with: YCSB's core workload (Cooper et
// al., "Benchmarking cloud serving systems with YCSB", SoCC 2010) with a hot spot
// (S1, table 4.3). By YCSB's names: requestdistribution=hotspot, insertorder=ordered,
// fieldcount=1.
const (
	hotDataFraction      = 0.2 // hotspotdatafraction
	hotOperationFraction = 0.8 // hotspotopnfraction
	fieldLength          = 100 // fieldlength, in bytes
)

// Most of the data, and what S1's services work on here where nobody says
// otherwise: its own were of 500 MB.
const (
	mostData    = 4096 // MiB
	defaultData = 64   // MiB, of what takes in data at 10 MB/s and more, or has them in its image
	slowData    = 4    // MiB, of what is filled at less than 1 MB/s where four copies share a CPU
)

// recordsIn is how many records make so much data. Only fields count.
func recordsIn(mebibytes int64) int64 { return mebibytes << 20 / fieldLength }

// recordKey is a record's name. The names' order is the records', so that the hot
// ones lie together in a store that keeps its keys in order, as they do in one that
// keeps its records in the order in which they came.
func recordKey(n int64) string { return fmt.Sprintf("user%08d", n) }

// recordField is a record's one field after an update; 0 is as it was inserted. It
// begins with the record's name and the update's number, and the rest follows
// from these, so that a reader knows each field that was ever written from any other.
func recordField(n, update int64) string {
	field := make([]byte, 0, fieldLength+10)
	field = append(field, recordKey(n)...)
	field = append(field, ' ')
	field = strconv.AppendInt(field, update, 10)
	field = append(field, ' ')
	// Text without order: what compresses or looks like another page's content
	// would make a store smaller than it is.
	for state := mix(uint64(n)) ^ uint64(update); len(field) < fieldLength; {
		state += 0x9e3779b97f4a7c15
		for bits, i := mix(state), 0; i < 10; bits, i = bits>>6, i+1 {
			field = append(field, fieldAlphabet[bits&63])
		}
	}
	return string(field[:fieldLength])
}

const fieldAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// checkField says what is wrong with a record's field as it was read.
func checkField(n int64, field string) error {
	rest, found := strings.CutPrefix(field, recordKey(n)+" ")
	if found {
		number, _, _ := strings.Cut(rest, " ")
		if update, err := strconv.ParseInt(number, 10, 64); err == nil && update >= 0 &&
			field == recordField(n, update) {
			return nil
		}
	}
	return fmt.Errorf("record %s was not found, or with another content: %.40q", recordKey(n), field)
}

// operation is one of the mix: a record is read whole, or its field written.
type operation struct {
	record int64
	read   bool
	update int64 // the number that a write gives
}

// ycsb draws operations. Several goroutines may call it.
type ycsb struct {
	records, hot, reads int64
	access              string // one of the accesses; empty is [hotSpot]
	served              int64  // how many were drawn

	mu      sync.Mutex
	random  *rand.Rand
	updates int64
}

// newYCSB makes the mix over records, of which reads percent read. A seed's sequence
// is always the same.
func newYCSB(records, reads int64, seed uint64) *ycsb {
	return &ycsb{
		records: records, hot: hotOf(records), reads: reads,
		random: rand.New(rand.NewPCG(seed, uint64(records))),
	}
}

// hotOf is how many of so many records, the first ones, are hot.
func hotOf(records int64) int64 { return max(1, int64(float64(records)*hotDataFraction)) }

func (m *ycsb) next() operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := operation{record: m.drawn()}
	if o.read = m.random.Int64N(100) < m.reads; !o.read {
		m.updates++
		o.update = m.updates
	}
	return o
}

// The orders in which records are asked for. S1's table gives its access as uniform, its text as
// a hot spot, and of httpd that it serves its files one after the other.
const (
	hotSpot = "hot-spot"
	uniform = "uniform"
	serial  = "serial"
)

// by has the records asked for in an order.
func (m *ycsb) by(access string) *ycsb {
	m.access = access
	return m
}

// drawn is the next record.
func (m *ycsb) drawn() int64 {
	defer func() { m.served++ }()
	switch {
	case m.access == serial:
		return m.served % m.records
	case m.access == uniform:
		return m.random.Int64N(m.records)
	case m.records > m.hot && m.random.Float64() >= hotOperationFraction:
		return m.hot + m.random.Int64N(m.records-m.hot)
	}
	return m.random.Int64N(m.hot)
}

// access reads in which of some orders records are asked for.
func (from *parameters) access(others ...string) string {
	var allowed []string
	for _, one := range append([]string{hotSpot}, others...) {
		word, _, _ := strings.Cut(one, ":")
		allowed = append(allowed, word)
	}
	help := hotSpot + " (a fifth of them gets four fifths of the requests), or " + strings.Join(others, ", or ")
	return from.word("access", hotSpot, help, allowed...)
}

// resp gives the mix as commands of Redis' protocol.
func (m *ycsb) resp() func() ([]string, func(load.Reply) error) {
	return func() ([]string, func(load.Reply) error) {
		o := m.next()
		if o.read {
			return []string{
				"GET",
				recordKey(o.record),
			}, func(r load.Reply) error { return checkField(o.record, string(r.Text)) }
		}
		return []string{"SET", recordKey(o.record), recordField(o.record, o.update)}, checkStored
	}
}

func checkStored(r load.Reply) error {
	if r.Type != '+' || string(r.Text) != "OK" {
		return fmt.Errorf("SET was answered by %.40q", r.Text)
	}
	return nil
}

// inBatches calls do for the records from one to before another, in order, until
// all have been.
func inBatches(records, size int64, do func(from, to int64) error) error {
	for from := int64(0); from < records; from += size {
		if err := do(from, min(from+size, records)); err != nil {
			return fmt.Errorf("records %d to %d of %d: %w", from, min(from+size, records)-1, records, err)
		}
	}
	return nil
}
