package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"tare/lab"
	"tare/record"
)

// What machines are, and what they touch, is reported before they are made.
func TestDryRunNamesMachines(t *testing.T) {
	planned := func(names ...string) string {
		var out bytes.Buffer
		dir := t.TempDir()
		g := lab.Group{Workload: "redis"}
		for i, name := range names {
			g.Conditions = append(g.Conditions, lab.Condition{Condition: record.Condition{Label: name, Platform: name, Baseline: i == 0}})
		}
		d := lab.Design{Groups: []lab.Group{g}, Plan: record.Plan{Blocks: 1}}
		if err := (&app{out: &out}).printDesign(t.Context(), dir, d, 0, lab.Remover(dir)); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(out.String(), dir, "STATE")
	}
	machine := []string{"virtual machines", "STATE/vm,", "network link tare-v0", "STATE/vm/boot"}
	text := planned("bare", "vm:tcg/bare")
	for _, want := range append(machine, "vm:tcg/bare  (not representative)", "note: vm:tcg/bare is not representative: an emulated virtual machine", "1 block and a warm-up") {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	text = planned("bare", "cgroup")
	for _, unwanted := range append(machine, "representative") {
		if strings.Contains(text, unwanted) {
			t.Errorf("without a machine it says %q:\n%s", unwanted, text)
		}
	}
	const pods = "static pods of the node's kubelet"
	if with := planned("bare", "k8s"); !strings.Contains(with, pods) || strings.Contains(text, pods) {
		t.Errorf("with pods it says:\n%s\nwithout:\n%s", with, text)
	}
	if os.Getenv("TARE_TEST_ALL") == "" {
		return // what follows boots a guest by KVM to choose: make test-all
	}
	if text = planned("bare", "vm/bare"); !strings.Contains(text, "vm/bare  (vm:") {
		t.Errorf("it does not say which engine was chosen:\n%s", text)
	}
}
