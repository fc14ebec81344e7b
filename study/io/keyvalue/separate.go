package keyvalue

import (
	"fmt"
	"slices"

	"tare/platform"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
)

// separation splits the time that a container adds to a cell's request into the parts of
// container, storage and network, in microseconds. On one engine, storages S are crossed
// with the host's network and the bridge. The reference is the layer, or the first storage
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

// separate is the separation of every reference cell that has a square, on an engine, the
// slowest first. It is empty where the run's repetitions are not paired.
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
	s := separation{
		cell:    c,
		rate:    r.rate(c, c.base),
		storage: map[string]stats.Estimate{},
		more:    map[string]stats.Estimate{},
	}
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
		if of.engine == engine && len(at(of.storage, onHost)) > 0 && len(at(of.storage, onBridge)) > 0 &&
			!slices.Contains(storages, of.storage) {
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

// shareOf is a part of a whole. There is no share unless both are above zero in every
// block.
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

// separationPart is a table of what container, storage and network add to a request.
func (r reading) separationPart(engine string) []report.Part {
	all := r.separate(engine)
	if len(all) == 0 {
		return nil
	}
	t := report.Table{
		Title: "Time added to a request by container, storage and network, µs",
		Note:  accounted(all),
		Method: "Container: the " + all[0].reference + " on the host's network against bare metal. " +
			"Other storages: against the " + all[0].reference + ", averaged over both networks. " +
			"Bridge: against the host's network, averaged over storages. Proxy and NAT: with the " + all[0].reference + " alone. " +
			"Interaction: by how much the bridge's cost on the other storages differs from that on the " + all[0].reference + ". " +
			"Share: the bridge's part of all that a container on the bridge adds. All are from the same blocks.",
		Columns: []report.Column{
			{Head: "request"}, {Head: "bare, 1000/s", Number: true, Optional: true}, {Head: "container", Number: true},
		},
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
		column(storage, true)
	}
	column("bridge", false)
	more := networks(all)
	for _, network := range more {
		column(network, true)
	}
	column("interaction", true)
	column("bridge's share, %", false)
	for _, s := range all {
		row := []report.Cell{{Text: s.cell.name()}, report.Estimated(s.rate, 1e-3), effect(s.container, 1)}
		for _, storage := range storages {
			row = append(row, effectOf(s.storage, storage))
		}
		row = append(row, effect(s.network, 1))
		for _, network := range more {
			row = append(row, effectOf(s.more, network))
		}
		t.Rows = append(t.Rows, append(row, effect(s.interaction, 1), report.Estimated(s.share, 100)))
	}
	if len(engines(r.memory)) > 1 {
		t.Title += ", " + engine
	}
	return []report.Part{t}
}

func effectOf(of map[string]stats.Estimate, name string) report.Cell {
	if e, ok := of[name]; ok {
		return effect(e, 1)
	}
	return report.Absent()
}

// networkPart says how much of the time that a container on the bridge adds to a request is
// the network's, at the highest rate.
func networkPart(all []separation) string {
	if len(all) == 0 || !all[len(all)-1].share.Known() {
		return ""
	}
	return fmt.Sprintf("On the bridge the network accounts for %s of the time added to a request.",
		place.Percent(all[len(all)-1].share, 100))
}

// accounted says what container, network and storage add to a request at the highest rate.
func accounted(all []separation) string {
	if len(all) == 0 {
		return ""
	}
	s := all[len(all)-1]
	if !s.whole.Known() {
		return ""
	}
	text := fmt.Sprintf("On the bridge, a request (%s) takes %s more than on bare metal. ", s.cell.name(), place.Micros(s.whole))
	text += fmt.Sprintf("The network adds %s of that, the container %s.", place.Micros(s.network), place.Micros(s.container))
	for _, storage := range []platform.Storage{platform.StorageVolume, platform.StorageBind} {
		e, ok := s.storage[string(storage)]
		switch {
		case !ok:
		case e.DiffersFrom(0):
			text += fmt.Sprintf(" A %s adds %s to the %s.", storage, place.Micros(e), s.reference)
		default:
			text += fmt.Sprintf(" A %s does not differ significantly from the %s.", storage, s.reference)
		}
	}
	return text
}
