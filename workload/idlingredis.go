package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tare/load"
)

// Redis as an idle neighbour: its objects are values, and a request is a GET. Nothing
// of them is on a disk, nor comes or goes by a clock.

func (redis) Sized(p Params, bytes int64) (Params, error) {
	sized, err := sizedObjects(p, bytes)
	sized["appendonly"], sized["data"] = "no", "0"
	return sized, err
}

// idleRedis has it look after itself once a second, which is the least, and not ten
// times, and leave its tables alone while nobody asks.
var idleRedis = []string{"--hz", "1", "--activerehashing", "no"}

// objectMemory is the most that a server needs for its objects: its allocator has sizes
// in steps of a quarter to an eighth, and a value is longer than a power of two by its
// header.
func objectMemory(o objects) int64 { return o.bytes() + o.bytes()/4 }

// idlePlan parses the parameters of one that holds objects.
func idlePlan(t Trial) (redisPlan, error) {
	plan, err := planOf[redisPlan](t.Params())
	if err == nil && plan.objects.rounds == 0 {
		err = &WrongValue{"objects", t.Params()["objects"], "more than 0, for redis to hold any"}
	}
	return plan, err
}

const (
	// fillBatch is about how many bytes are sent before their answers are read.
	fillBatch = 1 << 20
	// fillBatchWithin is for a box whose memory is short, so that it swaps.
	fillBatchWithin = time.Minute
)

func (redis) Fill(ctx context.Context, t Trial, seed uint64) error {
	plan, err := idlePlan(t)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		// It connects as the load does, which may be from elsewhere.
		next := int64(0)
		conn, err := load.RESP{
			Address: plan.address(t), Dial: dialOf(t),
			Pipeline: int(max(1, min(objectsInRound, fillBatch/plan.objects.largest()))),
			Next: func() ([]string, func(load.Reply) error) {
				n := min(next, plan.objects.count()-1) // a last batch repeats the last
				next++
				return []string{"SET", objectKey(n), string(plan.objects.content(seed, n).bytes())}, checkStored
			},
		}.Open(ctx)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		defer conn.Close()
		for next < plan.objects.count() {
			first := next
			if _, err := conn.Do(time.Now().Add(fillBatchWithin)); err != nil {
				return fmt.Errorf("lay objects %d and on, of %d, into redis at %s: %w", first, plan.objects.count(), plan.address(t), err)
			}
		}
		return nil
	})
}

func (redis) Asks(t Trial, filled, seed uint64) (load.Target, error) {
	plan, err := idlePlan(t)
	if err != nil {
		return nil, err
	}
	draws := plan.objects.draws(filled, seed)
	asked, ready := int64(0), false
	return load.RESP{
		Address: plan.address(t), Dial: dialOf(t),
		Next: func() ([]string, func(load.Reply) error) {
			// One that is still saving itself refuses to begin anew.
			if ready {
				ready = false
				return []string{"BGSAVE"}, checkSaving
			}
			if asked++; plan.snapshot > 0 && asked%plan.snapshot == 0 {
				return []string{"INFO", "persistence"}, func(r load.Reply) error {
					text := string(r.Text)
					ready = strings.Contains(text, "rdb_bgsave_in_progress:0")
					if !strings.Contains(text, "rdb_bgsave_in_progress:") {
						return fmt.Errorf("INFO persistence was answered by %.80q", r.Text)
					}
					return nil
				}
			}
			n := draws.next()
			return []string{"GET", objectKey(n)}, func(r load.Reply) error {
				return plan.objects.content(filled, n).check(r.Text)
			}
		},
	}, nil
}

// checkSaving is an error unless a snapshot was begun.
func checkSaving(r load.Reply) error {
	if string(r.Text) != "Background saving started" {
		return fmt.Errorf("BGSAVE was answered by %.80q", r.Text)
	}
	return nil
}

var _ Idling = redis{}
