package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tare/cli/command"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// recorder is what carries studies out: it notes them.
type recorder struct {
	nodes, namespace string
	cpus             int
	checked          int
	carried          []Study
}

func (r *recorder) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&r.nodes, "nodes", "", "")
	flags.StringVarP(&r.namespace, "namespace", "n", "", "")
}

func (r *recorder) Least(context.Context) (int, int64, error) { return r.cpus, 8 << 30, nil }

func (r *recorder) Check(context.Context, Study) error {
	r.checked++
	return nil
}

func (r *recorder) StateDir() string { return "/var/lib/there" }

func (r *recorder) Carry(_ context.Context, s Study) error {
	r.carried = append(r.carried, s)
	return nil
}

func runElsewhere(t *testing.T, r *recorder, line ...string) (code int, said string) {
	t.Helper()
	args := append([]string{"kubectl-tare"}, line...)
	defer func() { workload.Away = nil }()
	root, _ := ElsewhereCommand("kubectl-tare", args, r)
	var out bytes.Buffer
	code = command.Run(t.Context(), root, args, &out, &out, ExitCode)
	return code, out.String()
}

// A study's arguments are passed on as they stand, but for what is for this machine.
func TestStudyElsewhere(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ line, want []string }{
		{[]string{"weigh", "redis", "--quick", "--nodes", "pool=bench"}, []string{"weigh", "redis", "--quick"}},
		{[]string{"--home", dir, "weigh", "--nodes=a", "redis", "-n", "bench"}, []string{"weigh", "redis"}},
		{[]string{"weigh", "--rootfs", "/nonexistent/root", "--nodes", "a", "--platform", "bare,cgroup", "--", "/bin/true"},
			[]string{"weigh", "--rootfs", "/nonexistent/root", "--platform", "bare,cgroup", "--", "/bin/true"}},
		{[]string{"weigh", "-nbench", "redis", "--nodes", "a"}, []string{"weigh", "redis"}},
		{[]string{"latency", "cpu", "-n=bench", "--quota", "4ms", "--nodes", "a"}, []string{"latency", "cpu", "--quota", "4ms"}},
	} {
		r := &recorder{cpus: 4}
		code, said := runElsewhere(t, r, c.line...)
		if code != exitSuccess || len(r.carried) != 1 {
			t.Errorf("%q: code %d, %s", c.line, code, said)
			continue
		}
		s := r.carried[0]
		if r.nodes == "" {
			t.Errorf("%q: the value of --nodes is lost", c.line)
		}
		if !slices.Equal(s.Args, c.want) || !strings.HasPrefix(s.ID, c.want[0]+"-") {
			t.Errorf("%q: carried %+v, want %q", c.line, s, c.want)
		}
	}
}

// What tare would refuse, or no node has, is refused before anything is made.
func TestStudyElsewhereIsReadFirst(t *testing.T) {
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"weigh", "redsi"}, "redis"},
		{[]string{"weigh", "redis", "--bogus"}, "--bogus"},
		{[]string{"weigh", "redis", "--cpuset-cpus", "7"}, "7"},
		{[]string{"weigh", "redis", "--budget", "2h"}, "--yes"},
		{[]string{"weigh", "redis", "--json", "-"}, "tare export"},
		{[]string{"weigh", "redis", "--json", "-", "--dry-run"}, "tare export"},
		{[]string{"weigh", "redis", "--fail-above", "2%"}, "tare show"},
		{[]string{"pages"}, "pages"},
	} {
		r := &recorder{cpus: 4}
		if code, said := runElsewhere(t, r, c.line...); code != exitUsage || len(r.carried) > 0 || !strings.Contains(said, c.want) {
			t.Errorf("%q: code %d, %s; want a usage error with %s", c.line, code, said, c.want)
		}
	}
	r := &recorder{cpus: 4}
	code, said := runElsewhere(t, r, "weigh", "redis", "--platform", "bare,vm/bare", "--dry-run")
	if code == exitSuccess || !strings.Contains(said, "do not work on nodes") {
		t.Errorf("a virtual machine: code %d, %s", code, said)
	}
	r = &recorder{cpus: 4}
	if code, said := runElsewhere(t, r, "weigh", "redis", "--dry-run"); code != exitSuccess || len(r.carried) > 0 || r.checked != 1 ||
		!strings.Contains(said, "for each node a Lease and a Job.") {
		t.Errorf("a dry run: code %d, %s", code, said)
	}
}

// The texts of workloads' files go with a study, and so does how many Services its pods need.
func TestStudyElsewhereNeeds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	text := "name: a\nimage: {rootfs: /srv/a}\nkind: service\ncommand: [/a, '${listen}', '${port}']\nports: [80]\nload: {http: {rate: 5, duration: 1s}}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	line := []string{"weigh", "--nodes", "a", "--workload", file, "--platform", "bare,k8s", "--vary", "network=bridge,bridge:clusterip,bridge:nodeport"}
	r := &recorder{cpus: 4}
	code, said := runElsewhere(t, r, line...)
	if code != exitSuccess || len(r.carried) != 1 {
		t.Fatalf("code %d, %s", code, said)
	}
	s := r.carried[0]
	if s.Files[file] != text || s.Services[platform.NetworkClusterIP] == 0 || s.Services[platform.NetworkNodePort] == 0 || s.ServicePorts != 1 {
		t.Errorf("%+v", s)
	}
	code, said = runElsewhere(t, r, append(line, "--dry-run")...)
	want := fmt.Sprintf("for each node a Lease, a Job and %d Services.", s.Services[platform.NetworkClusterIP]+s.Services[platform.NetworkNodePort])
	if code != exitSuccess || len(r.carried) != 1 || !strings.Contains(said, want) {
		t.Errorf("a dry run: code %d, %s; want %q", code, said, want)
	}
	r = &recorder{cpus: 4}
	code, said = runElsewhere(t, r, "startup", "redis", "--nodes", "a", "--platform", "k8s", "--network", "bridge:clusterip")
	if code != exitUsage || len(r.carried) > 0 || !strings.Contains(said, "weigh") {
		t.Errorf("a study of many pods: code %d, %s", code, said)
	}
}

// A part that is complete is not measured again, as when a pod is made anew to give its results.
func TestMeasurePartThatIsComplete(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TARE_HOME", dir)
	of := record.Part{Study: "weigh-20260102-150405-7f3a", Node: "a"}
	store, err := record.Open(filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Begin(record.Run{ID: of.ID(), Study: "weigh", Started: time.Now(), Status: record.Complete}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := MeasurePart(t.Context(), []string{"no", "study"}, Sent{}, of, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
	of.Node = "b"
	if err := MeasurePart(t.Context(), []string{"no-study"}, Sent{}, of, io.Discard, io.Discard); err == nil {
		t.Error("a part that cannot be measured counts as complete")
	}
}
