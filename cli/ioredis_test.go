package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
	"tare/study/kit"
)

// willing is a platform that supports everything and launches nothing.
type willing struct {
	platform.Platform // nil: what is not overridden is not called
	name              string
}

func (w willing) Name() string                    { return w.name }
func (w willing) Check(context.Context) error     { return nil }
func (w willing) Supports(platform.Setting) error { return nil }

// designOfRedis reads a command line of `tare io redis` on a host of so many CPUs.
func designOfRedis(t *testing.T, cpus int, args ...string) (lab.Design, error) {
	t.Helper()
	cmd, s := ioRedis()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	host := studyHost{Host: kit.Host{
		Memory: 8 << 30, Check: func(p platform.Platform) error { return p.Check(t.Context()) },
		Platform: func(name string) (platform.Platform, error) { return willing{name: name}, nil },
	}}
	for cpu := range cpus {
		host.CPUs = append(host.CPUs, cpu)
	}
	return s.design(cmd, nil, host)
}

// The server has CPUs apart from its load's, where there are two: as many as it has
// io-threads, but at most half.
func TestRedisServerCPUs(t *testing.T) {
	for _, c := range []struct {
		cpus   int
		args   []string
		want   string
		shared bool
	}{
		{1, nil, "0", true},
		{2, nil, "1", false},
		{2, []string{"--io-threads", "1,4"}, "1", false},
		{8, []string{"--io-threads", "1,4"}, "4-7", false},
		{8, []string{"--io-threads", "8"}, "4-7", false},
		{8, nil, "7", false},
		{8, []string{"--cpuset-cpus", "2-3"}, "2-3", false},
	} {
		d, err := designOfRedis(t, c.cpus, c.args...)
		if err != nil {
			t.Errorf("%d CPUs, %q: %v", c.cpus, c.args, err)
			continue
		}
		if got := d.Groups[0].Conditions[0].Setting.CPUSet; got != c.want {
			t.Errorf("%d CPUs, %q: the server is on %s, want %s", c.cpus, c.args, got, c.want)
		}
		if noted := slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "share CPUs (load on CPU ") }); noted != c.shared {
			t.Errorf("%d CPUs, %q: notes %q", c.cpus, c.args, d.Plan.Notes)
		}
	}
}

func TestRedisFlags(t *testing.T) {
	d, err := designOfRedis(t, 2, "--payload", "100", "--pipeline", "5", "--command", "hset", "--appendonly", "no", "--storage", "volume", "--network", "bridge", "--requests", "5000", "--blocks", "2")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 1 || len(d.Groups[0].Conditions) != 2 || d.Plan.Blocks != 2 {
		t.Fatalf("%+v", d)
	}
	c := d.Groups[0].Conditions[1]
	if c.Params["requests"] != "5000" || c.Params["commands"] != "hset" || c.Setting.Network != platform.NetworkBridge || c.Setting.Storage != platform.StorageVolume {
		t.Errorf("%v, %+v", c.Params, c.Setting)
	}
	for _, args := range [][]string{
		{"--payload", "0"}, {"--pipeline", "1,1"}, {"--command", "flushall"}, {"--appendonly", "maybe"}, {"--storage", "disk"}, {"--network", "none"},
		{"--requests", "0"}, {"--clients", "0"}, {"--platform", "bare"}, {"--blocks", "0"}, {"--quick", "--budget", "1m"}, {"--cpuset-cpus", "9"}, {"--io-threads", "65"},
	} {
		_, err := designOfRedis(t, 2, args...)
		var asked *kit.Usage
		if err == nil || strings.Contains(err.Error(), "\n") || !errors.As(err, &asked) && exitCode(err) != exitUsage {
			t.Errorf("%q: %v, want one line on how to use it", args, err)
		}
	}
}
