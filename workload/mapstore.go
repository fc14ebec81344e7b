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
type mapstore struct{}

func (mapstore) Name() string { return "mapstore" }
func (mapstore) Summary() string {
	return "database on memory-mapped storage (LMDB), loaded over Redis' protocol by tare"
}
func (mapstore) Source() Source { return Source{Recipe: "mapstore"} }

const mapstorePort = 6379

func (mapstore) Params() []Param {
	there := strconv.Itoa(image.MapstoreData)
	return append([]Param{
		{"data", there, "MiB of records that are asked for, 1 to " + strconv.Itoa(mostData) + "; what is above " + there + " is made in /data first, each copy's its own"},
		{"reads", "100", "percent of the operations that read a record, 0 to 100; with any that write, each copy has a store of its own in /data, mapped for writing"},
		accessParam(uniform),
	}, pacedParams("500ms", 16)...)
}

// mapstorePlan is the parameters, read.
type mapstorePlan struct {
	data, reads int64
	access      string
}

func planMapstore(p Params) (plan mapstorePlan, err error) {
	if plan.data, err = p.whole("data", 1, mostData); err != nil {
		return plan, err
	}
	if plan.access, err = p.oneOf("access", hotSpot, uniform); err != nil {
		return plan, err
	}
	plan.reads, err = p.whole("reads", 0, 100)
	return plan, err
}

// own tells that the store is not the image's, which is neither long enough for all
// nor ever written to.
func (p mapstorePlan) own() bool { return p.data > image.MapstoreData || p.reads < 100 }

func (mapstore) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

func (mapstore) Program(p Params) (Program, error) {
	plan, err := planMapstore(p)
	if err != nil {
		return Program{}, err
	}
	if _, err := loadOptions(p); err != nil {
		return Program{}, err
	}
	port := p.portOr(mapstorePort)
	args := []string{"/usr/bin/mapstore", "serve", "--address", p.listenAddress(), "--port", strconv.Itoa(port)}
	if plan.own() {
		args = append(args, "--data", strconv.FormatInt(plan.data, 10), "--scratch", "/data/store.mdb")
	}
	if plan.reads < 100 {
		args = append(args, "--writable")
	}
	// What is mapped is page cache, which the kernel can take back. In making a store
	// some of it waits to be written.
	return Program{
		Args: append(args, image.MapstoreFile), Ports: []int{port}, Data: []string{"/data"},
		Service: true, MemoryNeed: 32 << 20,
	}, nil
}

func (mapstore) Metrics(p Params) []Metric {
	metrics := loadMetrics(p)
	if plan, err := planMapstore(p); err == nil && plan.own() {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// Ready waits for PONG. A store of its own has been made by then, and the server
// tells how long that took.
func (mapstore) Ready(ctx context.Context, t Trial) error {
	plan, err := planMapstore(t.Params())
	if err != nil {
		return err
	}
	address, limit := t.Address(t.Params().portOr(mapstorePort)), readyWithin
	if plan.own() {
		limit = workWithin
	}
	err = awaitReady(ctx, limit, "mapstore answers PING at "+address, func(ctx context.Context) error {
		return askMapstore(ctx, t, "PING", func(answer string) error {
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
	err = askMapstore(ctx, t, "INFO", func(answer string) error {
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

// askMapstore sends one command, and has its answer checked.
func askMapstore(ctx context.Context, t Trial, command string, check func(answer string) error) error {
	return askOnce(
		ctx,
		load.RESP{
			Address: t.Address(t.Params().portOr(mapstorePort)),
			Dial:    dialOf(t),
			Next: func() ([]string, func(load.Reply) error) {
				return []string{command}, func(r load.Reply) error { return check(string(r.Text)) }
			},
		},
	)
}

func (w mapstore) Drive(ctx context.Context, t Trial) error {
	plan, err := planMapstore(t.Params())
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, plan.target(t, 1))
	})
}

// target is the mix, a seed's always the same.
func (p mapstorePlan) target(t Trial, seed uint64) load.RESP {
	return load.RESP{
		Address: t.Address(t.Params().portOr(mapstorePort)),
		Dial:    dialOf(t),
		Next:    newYCSB(recordsIn(p.data), p.reads, seed).by(p.access).resp(),
	}
}

func (mapstore) Offered(p Params) (Offered, error) {
	o, err := loadOptions(p)
	return offered(o), err
}

func (mapstore) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan, err := planMapstore(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	return loadTargetOnce(ctx, t, plan.target(t, seed), options, seed)
}

func (mapstore) Sustained() (p Params, steady bool) { return nil, true }

func (mapstore) Sustain(ctx context.Context, t Trial, seed uint64) error {
	plan, err := planMapstore(t.Params())
	if err != nil {
		return err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return err
	}
	return sustain(ctx, t, plan.target(t, seed), options)
}

var (
	_ Sustainer = mapstore{}
	_ Loader    = mapstore{}
)
