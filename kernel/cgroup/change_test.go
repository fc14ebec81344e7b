package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func contents(t *testing.T, c Changes) []string {
	t.Helper()
	var all []string
	for _, one := range c {
		text, err := readFile(filepath.Dir(one.File), filepath.Base(one.File))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

func TestWhatAChangeWrites(t *testing.T) {
	one := tree(t, 1, []string{"cpu", "cpuset"}, map[string]string{
		"a/cpuset.cpus": "0-1", "a/cpu.cfs_quota_us": "50000", "a/cpu.cfs_period_us": "100000", "a/cpu.shares": "1024", "a/inner/cpuset.cpus": "0",
		"b/cpuset.cpus": "0-1",
	})
	two := tree(t, 2, []string{"cpu", "cpuset"}, map[string]string{"a/cpuset.cpus": "", "a/cpu.max": "50000 100000", "a/cpu.weight": "39", "c/cpu.max": "max 100000"})
	short := Bandwidth{Quota: 5 * time.Millisecond, Period: 10 * time.Millisecond}
	for _, c := range []struct {
		name string
		make func() (Changes, error)
		want []string // file=old>new
		none bool     // a *Unchangeable
	}{
		{"CPUs, v1", func() (Changes, error) { return one.At("/b").ChangeCPUs("1") }, []string{"cpuset.cpus=0-1>1"}, false},
		{"CPUs, v1, as they are", func() (Changes, error) { return one.At("/b").ChangeCPUs("0-1") }, nil, false},
		{"CPUs, v1, with groups in it", func() (Changes, error) { return one.At("/a").ChangeCPUs("1") }, nil, true},
		{"CPUs of the root", func() (Changes, error) { return one.At("/").ChangeCPUs("1") }, nil, true},
		{"CPUs, v2", func() (Changes, error) { return two.At("/a").ChangeCPUs("1") }, []string{"cpuset.cpus=>1"}, false},
		{"CPUs, v2, not handed down", func() (Changes, error) { return two.At("/c").ChangeCPUs("1") }, nil, true},
		{"shorter, v1: the quota first", func() (Changes, error) { return one.At("/a").ChangeBandwidth(short) }, []string{"cpu.cfs_quota_us=50000>5000", "cpu.cfs_period_us=100000>10000"}, false},
		{"longer, v1: the period first", func() (Changes, error) {
			return one.At("/a").ChangeBandwidth(Bandwidth{Quota: 500 * time.Millisecond, Period: time.Second})
		}, []string{"cpu.cfs_period_us=100000>1000000", "cpu.cfs_quota_us=50000>500000"}, false},
		{"shorter, v2", func() (Changes, error) { return two.At("/a").ChangeBandwidth(short) }, []string{"cpu.max=50000 100000>5000 10000"}, false},
		{"shares, v1", func() (Changes, error) { return one.At("/a").ChangeShares(4096) }, []string{"cpu.shares=1024>4096"}, false},
		{"shares, v2", func() (Changes, error) { return two.At("/a").ChangeShares(4096) }, []string{"cpu.weight=39>157"}, false},
	} {
		changes, err := c.make()
		var unchangeable *Unchangeable
		if errors.As(err, &unchangeable) != c.none || err != nil && !c.none {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, one := range changes {
			got = append(got, fmt.Sprintf("%s=%s>%s", filepath.Base(one.File), one.Old, one.New))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestUndoLeavesWhatOthersSet(t *testing.T) {
	layout := tree(t, 1, []string{"cpu"}, map[string]string{"a/cpu.shares": "1024", "b/cpu.shares": "1024", "c/cpu.shares": "1024"})
	var all Changes
	for _, name := range []string{"/a", "/b", "/c"} {
		c, err := layout.At(name).ChangeShares(2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c...)
	}
	holds := func(value string, c Change) {
		if err := os.WriteFile(c.File, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As after a crash: one made, one set by somebody else, one never made.
	holds("2", all[0])
	holds("512", all[1])
	err := all.Make()
	var foreign *Foreign
	if !errors.As(err, &foreign) || foreign.Have != "512" {
		t.Errorf("making over what somebody else set: %v", err)
	}
	err = all.Undo()
	if !errors.As(err, &foreign) || foreign.File != all[1].File {
		t.Errorf("undoing what somebody else set: %v", err)
	}
	if got := contents(t, all)[1]; got != "512" {
		t.Errorf("what somebody else set is %s afterwards", got)
	}
	if err := os.RemoveAll(filepath.Dir(all[1].File)); err != nil {
		t.Fatal(err)
	}
	if err := all.Undo(); err != nil {
		t.Errorf("undoing in a group that is gone: %v", err)
	}
	var gone *Gone
	if err := all[1].Undo(); !errors.As(err, &gone) || gone.File != all[1].File {
		t.Errorf("undoing the one in a group that is gone: %v, want it reported", err)
	}
	if err := all.Make(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("making a change in a group that is gone: %v", err)
	}
}

func TestCheck(t *testing.T) {
	layout := Layout{[]Hierarchy{{Version: 1, Mount: "/sys/fs/cgroup/cpuset", Root: "/"}}}
	for file, ok := range map[string]bool{
		"/sys/fs/cgroup/cpuset/docker/abc/cpuset.cpus":       true,
		"/sys/fs/cgroup/cpuset/cpuset.cpus":                  false, // everybody's
		"/sys/fs/cgroup/cpuset/docker/../cpuset.cpus":        false,
		"/sys/fs/cgroup/cpuset/docker/release_agent":         false,
		"/etc/cron.d/cpuset.cpus":                            false,
		"/sys/fs/cgroup/cpuset/../../../../etc/x/cpu.shares": false,
		"": false,
	} {
		if err := (Change{File: file}).Check(layout); (err == nil) != ok {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// On the real kernel: what is set is in force, and what is undone is as it was.
func TestChangeAndUndoInTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	layout, err := Host()
	if err != nil {
		t.Skip(err)
	}
	var in Layout
	for _, h := range layout.Hierarchies {
		if h.Has("cpu") || h.Has("cpuset") {
			in.Hierarchies = append(in.Hierarchies, h)
		}
	}
	group := in.At(fmt.Sprintf("tare-change-%d", os.Getpid()))
	if err := group.Create("cpu", "cpuset"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := group.Apply(Limits{Bandwidth: Bandwidth{Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond}}); err != nil {
		t.Skip(err)
	}
	before, err := group.Own()
	if err != nil {
		t.Fatal(err)
	}
	var all Changes
	add := func(c Changes, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c...)
	}
	want := Limits{Bandwidth: Bandwidth{Quota: 5 * time.Millisecond, Period: 10 * time.Millisecond}, Shares: 4096, CPUs: "0"}
	add(group.ChangeCPUs(want.CPUs))
	add(group.ChangeBandwidth(want.Bandwidth))
	add(group.ChangeShares(want.Shares))
	for range 2 {
		if err := all.Make(); err != nil {
			t.Fatal(err)
		}
		have, err := group.Own()
		if missing := want.Missing(have); missing != "" || err != nil {
			t.Errorf("after the change %s (%v)", missing, err)
		}
		for _, one := range all {
			if !one.Made() {
				t.Errorf("%s does not hold what was set", one.File)
			}
		}
		if err := all.Undo(); err != nil {
			t.Fatal(err)
		}
		if have, err := group.Own(); err != nil || have != before {
			t.Errorf("afterwards the group has %+v (%v), before it had %+v", have, err, before)
		}
	}
}
