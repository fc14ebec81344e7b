package weigh

import (
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
	"tare/record"
)

// Each layer is removed from the condition, and added to what has fewer.
func TestTheLayersOfACondition(t *testing.T) {
	for name, c := range map[string]struct {
		condition string
		want      []string // layer: without -> with
	}{
		"docker on the host's network": {"docker", []string{
			"the seccomp filter: docker seccomp=unconfined -> docker", "the log driver: docker log-driver=none -> docker",
			"the control group: bare -> cgroup", "namespaces and capabilities: cgroup -> oci:runc root=dir seccomp=unconfined",
			"the seccomp filter: oci:runc root=dir seccomp=unconfined -> oci:runc root=dir", "the overlay file system: oci:runc root=dir -> oci:runc", "the engine: oci:runc -> docker"}},
		"docker with a proxy": {"docker network=bridge:proxy", []string{
			"the network path: docker -> docker network=bridge:proxy", "the seccomp filter: docker network=bridge:proxy seccomp=unconfined -> docker network=bridge:proxy"}},
		"a control group": {"cgroup", []string{"the control group: bare -> cgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			fields := strings.Fields(c.condition)
			setting := platform.Setting{}
			for _, pair := range fields[1:] {
				key, value, _ := strings.Cut(pair, "=")
				if err := setting.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
			condition := func(id, name string, s platform.Setting, baseline bool) lab.Condition {
				return lab.Condition{Program: service{}, Condition: record.Condition{ID: id, Label: id, Workload: "svc", Platform: name, Setting: s, Baseline: baseline}}
			}
			g := lab.Group{Workload: "svc", Conditions: []lab.Condition{condition("svc@bare", "bare", platform.Setting{}, true), condition("svc@it", fields[0], setting, false)}}
			o := options(Options{})
			group, plan, ok := o.layers(g, record.LayerPlan{Of: "svc", Condition: "svc@it", Metric: "cpu"}, record.Host{})
			if !ok {
				t.Fatal("nothing to divide")
			}
			label := map[string]string{}
			for _, c := range group.Conditions {
				if label[c.ID] = c.Label; c.Workload != "svc layers" {
					t.Errorf("%s is of %s", c.ID, c.Workload)
				}
			}
			var got []string
			for _, s := range plan.Steps {
				if s.Removed != (s.With == plan.Whole && s.Layer != "the engine" && c.condition != "cgroup") {
					t.Errorf("%+v", s)
				}
				got = append(got, s.Layer+": "+label[s.Without]+" -> "+label[s.With])
			}
			text := strings.Join(got, "\n")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if label[plan.Bare] != "bare" || label[plan.Whole] != c.condition {
				t.Errorf("the whole is %s, against %s", label[plan.Whole], label[plan.Bare])
			}
		})
	}
}

// Nothing is divided against another baseline than bare metal.
func TestLayersTakeBareMetalForTheirBaseline(t *testing.T) {
	g := lab.Group{Workload: "svc", Conditions: []lab.Condition{
		{Condition: record.Condition{ID: "svc@docker", Platform: "docker", Baseline: true}}, {Condition: record.Condition{ID: "svc@it", Platform: "oci:runc"}}}}
	if _, _, ok := options(Options{}).layers(g, record.LayerPlan{Condition: "svc@it"}, record.Host{}); ok {
		t.Error("divided against docker")
	}
}
