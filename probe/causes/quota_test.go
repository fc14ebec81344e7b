package causes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
)

// A group that an engine removes has counted all the same.
func TestWhatAGroupThatIsGoneHadCounted(t *testing.T) {
	const ms = time.Millisecond
	now := time.Duration(0)
	var use cgroup.Use
	var failing error
	q, err := startQuota(func() (cgroup.Use, error) { return use, failing }, func() time.Duration { return now })
	if err != nil {
		t.Fatal(err)
	}
	// The clock that ticks is the real one: nothing below is changed while it may read.
	close(q.end)
	q.ended.Wait()
	q.end = make(chan struct{})
	at := func(when time.Duration, u cgroup.Use, err error) bool {
		now, use, failing = when, u, err
		return q.look()
	}
	counts := func(throttled int64) cgroup.Use {
		return cgroup.Use{Periods: 2 * throttled, Throttled: throttled, ThrottledTime: time.Duration(throttled) * ms}
	}
	if at(100*ms, counts(3), nil) || at(200*ms, counts(5), nil) || at(250*ms, counts(9), errors.New("for once")) {
		t.Error("a group that is there is gone")
	}
	if !at(300*ms, cgroup.Use{}, errGone) {
		t.Error("a group that is gone is there")
	}
	// Another of its name counts from nothing.
	at(400*ms, counts(1), nil)
	before, after, stale, err := q.stop()
	if err != nil || before != (cgroup.Use{}) || after != counts(5) || stale != 100*ms {
		t.Errorf("from %+v to %+v, stale by %v: %v", before, after, stale, err)
	}
}

func TestAGroupThatCannotBeReadIsReported(t *testing.T) {
	broken := errors.New("cpu.stat: input/output error")
	if _, err := startQuota(func() (cgroup.Use, error) { return cgroup.Use{}, broken }, func() time.Duration { return 0 }); !errors.Is(err, broken) {
		t.Errorf("at the beginning: %v", err)
	}
	reads := 0
	q, err := startQuota(func() (cgroup.Use, error) {
		if reads++; reads > 1 {
			return cgroup.Use{}, broken
		}
		return cgroup.Use{}, nil
	}, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := q.stop(); !errors.Is(err, broken) {
		t.Errorf("at the end: %v", err)
	}
}

func TestThrottlingOutlivesItsGroup(t *testing.T) {
	g := group(t, "gone")
	if err := g.Apply(cgroup.Limits{Bandwidth: cgroup.Bandwidth{Quota: 5 * time.Millisecond, Period: 20 * time.Millisecond}}); err != nil {
		t.Skip(err)
	}
	p := start(t, loadProgram(t), "spin")
	if err := g.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	w := watch(t, Target{Cgroup: g.Places[0].Dir()}, Options{})
	p.say(t)
	var counts cgroup.Use
	var err error
	// On a busy host a quota may run out while others run anyway: then it costs no time.
	for counts.Throttled < 5 || counts.ThrottledTime == 0 {
		if counts, err = g.Use(); err != nil {
			t.Fatal(err)
		}
	}
	w.quota.look()
	if err := errors.Join(g.Kill(context.Background()), g.Remove(context.Background())); err != nil {
		t.Fatal(err)
	}
	r := stop(t, w)
	if reason, absent := r.Lacks(partThrottling); absent {
		t.Fatal(reason)
	}
	t.Logf("%+v", r.Throttling)
	if th := r.Throttling; th.Throttled < 5 || th.Time <= 0 || th.Stale <= 0 || th.Stale > r.Span {
		t.Errorf("%+v in %v; the group had counted %+v", th, r.Span, counts)
	}
	if _, err := counted(g)(); !errors.Is(err, errGone) || !strings.Contains(err.Error(), g.String()) {
		t.Errorf("a group that is gone: %v", err)
	}
}
