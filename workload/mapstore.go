package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"tare/image"
	"tare/load"
)

// mapstore is a database on memory-mapped storage (programs/mapstore, on LMDB): what
// S1's document databases were before their engines changed. Its image holds the
// store, which all copies map, read-only and shared, from the one file below their
// layers: the page frames of the data are the same ones in all of them.
type mapstore struct {
	placeable
	workloadOf[mapstorePlan]
	readierOf[mapstorePlan]
	loaderOf[mapstorePlan]
	sustainerOf[mapstorePlan]
}

func (mapstore) Name() string { return "mapstore" }
func (mapstore) Summary() string {
	return "database on memory-mapped storage (LMDB), loaded over Redis' protocol by tare"
}
func (mapstore) Source() Source { return Source{Recipe: "mapstore"} }
func (mapstore) dataInImage()   {}

const mapstorePort = 6379

type mapstorePlan struct {
	listening
	data, reads int64
	access      string
	options     load.Options
}

func (plan mapstorePlan) parse(from *parameters) mapstorePlan {
	const there = image.MapstoreData
	plan.listening = from.listening(mapstorePort)
	plan.data = from.whole("data", there, 1, mostData, fmt.Sprintf("MiB of records that are asked for, RANGE; "+
		"%d, as S1 had, is in an image of its own; what else is above %d is made in /data first, each copy's its own",
		image.LargeData, there))
	plan.reads = from.whole("reads", 100, 0, 100, "percent of the operations that read a record, RANGE; "+
		"with any that write, each copy has a store of its own in /data, mapped for writing")
	plan.access = from.access(uniform)
	plan.options = from.pacedLoad(byClients(16, "500ms"))
	return plan
}

// own tells that the store is not the image's, which is neither long enough for all
// nor ever written to.
func (p mapstorePlan) own() bool { return made(p.data, image.MapstoreData) || p.reads < 100 }

func (plan mapstorePlan) program() Program {
	args := []string{"/usr/bin/mapstore", "serve", "--address", plan.listen, "--port", strconv.Itoa(plan.port)}
	if plan.own() {
		args = append(args, "--data", strconv.FormatInt(plan.data, 10), "--scratch", "/data/store.mdb")
	}
	if plan.reads < 100 {
		args = append(args, "--writable")
	}
	// What is mapped is page cache, which the kernel can take back. In making a store
	// some of it waits to be written.
	return Program{
		Args: append(args, image.MapstoreFile), Ports: []int{plan.port}, Data: []string{"/data"},
		Service: true, MemoryNeed: 32 << 20,
	}
}

func (plan mapstorePlan) metrics() []Metric {
	metrics := loadMetrics(plan.options)
	if plan.own() {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// ready waits for PONG. A store of its own has been made by then, and the server
// tells how long that took.
func (plan mapstorePlan) ready(ctx context.Context, t Trial) error {
	address, limit := t.Address(plan.port), readyWithin
	if plan.own() {
		limit = workWithin
	}
	err := awaitReady(ctx, limit, "mapstore answers PING at "+address, func(ctx context.Context) error {
		return plan.ask(ctx, t, "PING", func(answer string) error {
			if answer != "PONG" {
				return fmt.Errorf("PING was answered by %q", answer)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	var info mapstoreInfo
	err = plan.ask(ctx, t, "INFO", func(answer string) error {
		if err := json.Unmarshal([]byte(answer), &info); err != nil {
			return fmt.Errorf("%w in %.80q", err, answer)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ask mapstore what it serves: %w", err)
	}
	if info.Records < recordsIn(plan.data) || info.Writable != (plan.reads < 100) {
		return fmt.Errorf("mapstore serves %d records, for writing: %t; asked for were %d, for writing: %t",
			info.Records, info.Writable, recordsIn(plan.data), plan.reads < 100)
	}
	if plan.own() {
		t.Record("loading", info.Generated)
	}
	return nil
}

// mapstoreInfo is what the server says of itself.
type mapstoreInfo struct {
	Records   int64
	Writable  bool
	Generated float64 `json:"generated_seconds"`
}

// ask sends one command, and has its answer checked.
func (p mapstorePlan) ask(ctx context.Context, t Trial, command string, check func(answer string) error) error {
	return askOnce(ctx, load.RESP{
		Address: t.Address(p.port),
		Dial:    dialOf(t),
		Next: func() ([]string, func(load.Reply) error) {
			return []string{command}, func(r load.Reply) error { return check(string(r.Text)) }
		},
	})
}

func (plan mapstorePlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, plan.target(t, 1), plan.options)
	})
}

// target is the mix, a seed's always the same.
func (p mapstorePlan) target(t Trial, seed uint64) load.RESP {
	return load.RESP{
		Address: t.Address(p.port),
		Dial:    dialOf(t),
		Next:    newYCSB(recordsIn(p.data), p.reads, seed).by(p.access).resp(),
	}
}

func (plan mapstorePlan) offered() Offered {
	o := offered(plan.options)
	o.Threads = 1 // one loop over all connections
	return o
}

func (plan mapstorePlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	return loadTargetOnce(ctx, t, plan.target(t, seed), plan.options, seed)
}

func (mapstore) Sustained() (p Params, steady bool) { return nil, true }

func (plan mapstorePlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	return sustain(ctx, t, plan.target(t, seed), plan.options)
}

var (
	_ Sustainer = mapstore{}
	_ Loader    = mapstore{}
)
