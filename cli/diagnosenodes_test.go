package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/study/diagnose"
)

// onTwoNodes is a throttled container on each of two nodes. The third does not answer.
func onTwoNodes() OnNodes {
	node := func(name, container string, level diagnose.Level, rate float64) diagnose.NodeDocument {
		return diagnose.NodeDocument{Node: name, Document: diagnose.Document{
			Schema: diagnose.Schema, Span: 10 * time.Second, Containers: []string{container, "shop/idle/app"},
			Findings: []diagnose.Finding{{
				ID: container + "/throttled", Kind: diagnose.Throttled, Container: container, Level: level, Says: "used up its quota",
				Cost: diagnose.Cost{Rate: rate}, Based: diagnose.Measured,
				Set: []diagnose.Remedy{{
					Says: "a quota of 30 ms in each 100 ms", Command: "resources: {limits: {cpu: 300m}}",
					Patch: "kubectl patch -n shop deployment web --patch '{}'", P99: 30 * time.Millisecond, P99Now: 204 * time.Millisecond,
				}},
			}},
		}}
	}
	return OnNodes{
		Nodes:   []diagnose.NodeDocument{node("a", "shop/web-1/app", diagnose.Medium, 0.05), node("b", "shop/web-2/app", diagnose.High, 0.2)},
		Missing: []diagnose.Missing{{Node: "c", Cause: "its pod did not start within 2m0s"}},
		Notes:   []string{"pod shop/web-3 is pending, and left out: not scheduled"},
	}
}

func diagnoseNodes(t *testing.T, seen OnNodes, line ...string) (code int, out, errOut string) {
	t.Helper()
	root, cmd := &cobra.Command{Use: "kubectl-tare"}, &cobra.Command{Use: "diagnose"}
	root.AddCommand(cmd)
	args := append([]string{"kubectl-tare", "diagnose"}, line...)
	DiagnoseNodes(cmd, args, func(_ context.Context, _ []string, span time.Duration) (OnNodes, error) {
		if span != 10*time.Second {
			t.Errorf("--for %v", span)
		}
		return seen, nil
	})
	var stdout, stderr bytes.Buffer
	code = command.Run(t.Context(), root, args, &stdout, &stderr, ExitCode)
	return code, stdout.String(), stderr.String()
}

// What nodes found is one table, the costliest first, and one command for both pods of a Deployment.
func TestDiagnoseNodes(t *testing.T) {
	code, out, said := diagnoseNodes(t, onTwoNodes())
	if code != exitFailure || !strings.Contains(said, "1 node missing") {
		t.Errorf("code %d: %s", code, said)
	}
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"2 findings. The costliest: shop/web-2/app used up its quota", "b shop/web-2 app used up its quota high 0.2",
		"a shop/web-1 app used up its quota medium 0.05", "c: its pod did not start within 2m0s", "pod shop/web-3 is pending",
		"2 containers (shop/web-2/app,", "(resources: {limits: {cpu: 300m}})", "each, now at most 204 ms",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the page lacks %q:\n%s", want, out)
		}
	}
	if _, sorted, _ := diagnoseNodes(t, onTwoNodes(), "--sort", "name"); !strings.Contains(sorted, "The costliest: shop/web-2/app") {
		t.Errorf("by name, the costliest is another:\n%s", sorted)
	}
	if count := strings.Count(out, "kubectl patch"); count != 1 || strings.Index(words, "b shop/web-2") > strings.Index(words, "a shop/web-1") {
		t.Errorf("%d commands:\n%s", count, out)
	}
}

func TestDiagnoseNodesExitCodes(t *testing.T) {
	whole := onTwoNodes()
	whole.Missing = nil
	for _, c := range []struct {
		seen OnNodes
		line []string
		code int
		want string
	}{
		{whole, nil, exitSuccess, ""},
		{whole, []string{"--fail-on", "high"}, exitThreshold, "shop/web-2/app/throttled is high"},
		{onTwoNodes(), []string{"--fail-on", "high"}, exitThreshold, "shop/web-2/app/throttled is high"},
		{OnNodes{Missing: []diagnose.Missing{{Node: "c", Cause: "x"}}}, nil, exitFailure, "1 node missing"},
		{whole, []string{"--fail-on", "harmless"}, exitUsage, "want high, medium or low"},
		{whole, []string{"--for", "1ms"}, exitUsage, "--for 1ms"},
	} {
		if code, _, said := diagnoseNodes(t, c.seen, c.line...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%q: code %d, want %d: %s", c.line, code, c.code, said)
		}
	}
}

func TestDiagnoseNodesAsJSON(t *testing.T) {
	_, out, _ := diagnoseNodes(t, onTwoNodes(), "--json", "-")
	var d diagnose.NodesDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if d.Schema != diagnose.NodesSchema || len(d.Nodes) != 2 || d.Nodes[1].Findings[0].Node != "b" || d.Missing[0].Node != "c" {
		t.Errorf("%+v", d)
	}
}

// A container that has ended meanwhile is in the notes, and the others are diagnosed.
func TestDiagnoseHere(t *testing.T) {
	if _, err := DiagnoseHere(t.Context(), []string{"shop/gone/app"}, time.Second, true); ExitCode(err) != exitUsage {
		t.Errorf("%v", err)
	}
	_, notes, err := stillRunning(t.Context(), false, []string{"shop/gone/app", "pid:1"})
	if err != nil || !slices.Equal(notes, []string{"shop/gone/app does not run"}) {
		t.Errorf("%q, %v", notes, err)
	}
}
