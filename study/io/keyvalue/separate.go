package keyvalue

import (
	"fmt"
	"slices"

	"tare/platform"
	"tare/report"
	"tare/stats"
)

// separation is what of a cell's loss is the container's, the storage's and the
// network's, in microseconds a request. On one engine storages S are crossed with the
// host's network and the bridge; the reference is the layer, or the first storage
// where there is none. Over the blocks that have all of the square:
//
//	container    reference on the host's network - bare metal
//	storage(s)   mean over both networks of s - reference
//	network      mean over storages of bridge - host
//	interaction  mean over the other storages of (bridge - host) there - that of the reference
//
// These are the main effects of a factorial experiment. What a container on the
// bridge takes in all, averaged over storages, is their sum with stored, the mean
// over storages (the reference's own nothing among them) of storage on the host's
// network.
type separation struct {
	cell      cell
	reference string
	rate      stats.Estimate // of bare metal

	container   stats.Estimate
	storage     map[string]stats.Estimate // by storage, but for the reference
	network     stats.Estimate
	interaction stats.Estimate
	more        map[string]stats.Estimate // the engine's other networks, with the reference, against the host's

	whole, stored stats.Estimate
	// share is the network's part of the whole; excess is the network less all that is
	// not the network.
	share, excess stats.Estimate
}

const (
	onHost   = string(platform.NetworkHost)
	onBridge = string(platform.NetworkBridge)
)

// separate is the separation of every reference cell that has a square, on an
// engine, the slowest first; none where nothing pairs the run's repetitions, as the
// square is of blocks.
func (r reading) separate(engine string) []separation {
	if r.Run.Plan.Unpaired() {
		return nil
	}
	var all []separation
	for _, c := range r.reference() {
		if s, ok := r.separation(c, engine); ok {
			all = append(all, s)
		}
	}
	return all
}

func (r reading) separation(c cell, engine string) (separation, bool) {
	s := separation{cell: c, rate: r.rate(c, c.base), storage: map[string]stats.Estimate{}, more: map[string]stats.Estimate{}}
	at := func(storage, network string) blocks {
		condition, ok := c.at(spot{engine, storage, network})
		if !ok {
			return nil
		}
		return r.times(c, condition)
	}
	var storages []string
	for _, p := range c.places {
		of := spotOf(p)
		if of.engine == engine && len(at(of.storage, onHost)) > 0 && len(at(of.storage, onBridge)) > 0 && !slices.Contains(storages, of.storage) {
			storages = append(storages, of.storage)
		}
	}
	if len(storages) == 0 {
		return s, false
	}
	layer := slices.Index(storages, string(platform.StorageLayer))
	if layer > 0 {
		storages[0], storages[layer] = storages[layer], storages[0]
	}
	s.reference = storages[0]
	// A row of values a block: bare metal, then each storage on the host, then on the bridge.
	square := []blocks{r.times(c, c.base)}
	for _, network := range []string{onHost, onBridge} {
		for _, storage := range storages {
			square = append(square, at(storage, network))
		}
	}
	n := len(storages)
	host := func(v []float64) []float64 { return v[1 : 1+n] }
	bridge := func(v []float64) []float64 { return v[1+n:] }
	effect := func(of func(v []float64) float64) stats.Estimate { return r.Mean(combine(of, square...)) }
	network := func(v []float64) float64 { return mean(bridge(v)) - mean(host(v)) }
	whole := func(v []float64) float64 { return mean(bridge(v)) - v[0] }

	s.container = effect(func(v []float64) float64 { return host(v)[0] - v[0] })
	s.network, s.whole = effect(network), effect(whole)
	s.stored = effect(func(v []float64) float64 { return mean(host(v)) - host(v)[0] })
	for i, storage := range storages[1:] {
		s.storage[storage] = effect(func(v []float64) float64 {
			return (host(v)[i+1] - host(v)[0] + bridge(v)[i+1] - bridge(v)[0]) / 2
		})
	}
	s.interaction = stats.Absent(r.Report.Level)
	if n > 1 {
		s.interaction = effect(func(v []float64) float64 {
			return mean(bridge(v)[1:]) - mean(host(v)[1:]) - (bridge(v)[0] - host(v)[0])
		})
	}
	s.excess = effect(func(v []float64) float64 { return 2*network(v) - whole(v) })
	s.share = r.shareOf(combine(network, square...), combine(whole, square...))
	for _, p := range c.places {
		of := spotOf(p)
		if of.engine == engine && of.storage == s.reference && of.network != onHost && of.network != onBridge {
			s.more[of.network] = r.difference(at(s.reference, onHost), at(s.reference, of.network))
		}
	}
	return s, true
}

// shareOf is a part of a whole, where both are above nothing in every block: else
// there is no share.
func (r reading) shareOf(part, whole blocks) stats.Estimate {
	for block := range whole {
		if !(whole[block] > 0) || !(part[block] > 0) {
			return stats.Absent(r.Report.Level)
		}
	}
	return r.Ratio(whole, part)
}

// networks are those other than host and bridge that separations have.
func networks(all []separation) []string {
	var found []string
	for _, n := range []platform.Network{platform.NetworkProxy, platform.NetworkNAT} {
		if slices.ContainsFunc(all, func(s separation) bool { _, ok := s.more[string(n)]; return ok }) {
			found = append(found, string(n))
		}
	}
	return found
}

// separationPart answers S5's open question as a table.
func (r reading) separationPart(engine string) []report.Part {
	all := r.separate(engine)
	if len(all) == 0 {
		return nil
	}
	t := report.Table{
		Title: "Is it the network? What storage and network add to a request",
		Note: "Microseconds a request, from the same blocks: storages crossed with the host's network and the engine's bridge. Container is the " + all[0].reference +
			" on the host's network against bare metal; other storages are against the " + all[0].reference + ", averaged over both networks; bridge is against the host's network, averaged over storages; " +
			"proxy and NAT are with the " + all[0].reference + " alone. Together is by how much the network's cost on one storage differs from that on another. Share is the bridge's of all that a container on it takes.",
		Columns: []report.Column{{Head: "request"}, {Head: "bare, 1000/s", Number: true, Optional: true}, {Head: "container", Number: true}},
	}
	var storages []string
	for _, s := range all {
		for _, name := range []platform.Storage{platform.StorageVolume, platform.StorageBind, platform.StorageTmpfs} {
			if _, ok := s.storage[string(name)]; ok && !slices.Contains(storages, string(name)) {
				storages = append(storages, string(name))
			}
		}
	}
	column := func(head string, optional bool) {
		t.Columns = append(t.Columns, report.Column{Head: head, Number: true, Optional: optional})
	}
	for _, storage := range storages {
		column(storage, false)
	}
	column("bridge", false)
	more := networks(all)
	for _, network := range more {
		column(network, true)
	}
	column("together", true)
	column("share, %", false)
	for _, s := range all {
		row := []report.Cell{{Text: s.cell.name()}, report.Estimated(s.rate, 1e-3), report.ToldFrom(0, s.container)}
		for _, storage := range storages {
			row = append(row, toldOf(s.storage, storage))
		}
		row = append(row, report.ToldFrom(0, s.network))
		for _, network := range more {
			row = append(row, toldOf(s.more, network))
		}
		t.Rows = append(t.Rows, append(row, report.ToldFrom(0, s.interaction), report.Estimated(s.share, 100)))
	}
	if len(engines(r.memory)) > 1 {
		t.Title += ", " + engine
	}
	return []report.Part{t}
}

func toldOf(of map[string]stats.Estimate, name string) report.Cell {
	if e, ok := of[name]; ok {
		return report.ToldFrom(0, e)
	}
	return report.Absent()
}

// accounted says in a sentence which of storage and network accounts for the loss at
// the highest rate, and for how much of it.
func accounted(all []separation) string {
	if len(all) == 0 {
		return ""
	}
	s := all[len(all)-1]
	if !s.whole.Known() {
		return ""
	}
	text := fmt.Sprintf("A container on the bridge adds %s us to a request (%s): the network %s us", report.Said(s.whole, 1), s.cell.name(), report.Said(s.network, 1))
	if s.share.Known() {
		text += fmt.Sprintf(", %s %% of it", report.Said(s.share, 100))
	}
	text += fmt.Sprintf(", the container itself %s us", report.Said(s.container, 1))
	for _, storage := range []platform.Storage{platform.StorageVolume, platform.StorageBind} {
		e, ok := s.storage[string(storage)]
		switch {
		case !ok:
		case e.ToldFrom(0):
			text += fmt.Sprintf(", a %s against the %s %s us", storage, s.reference, report.Said(e, 1))
		default:
			text += fmt.Sprintf(", a %s against the %s nothing that could be told", storage, s.reference)
		}
	}
	return text + "."
}
