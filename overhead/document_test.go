package overhead_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"tare/overhead"
	"tare/platform"
	"tare/record"
)

func document(t testing.TB, run record.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := overhead.JSON(&out, overhead.NewDocument(run, overhead.Analyse(run, overhead.Options{}))); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// schema is the published one, formats asserted.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(overhead.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(overhead.SchemaID, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(overhead.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validate(t testing.TB, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

func TestDocumentsFollowTheSchema(t *testing.T) {
	schema := schema(t)
	complete := synthetic{seed: 51, blocks: 8, noise: 0.003, cold: 0.9, effects: map[string]float64{"docker": 0.95}}.run(t)
	runs := map[string]record.Run{
		"complete": complete,
		"redacted": overhead.Redact(complete),
		"empty":    {ID: "weigh-1", Status: record.Failed},
		"failed": synthetic{seed: 52, blocks: 2, effects: map[string]float64{"docker": 0.95},
			edit: func(trial *record.Trial) { trial.Error = "no" }}.run(t),
		"tainted": synthetic{seed: 53, blocks: 6, effects: map[string]float64{"docker": 0.95},
			edit: func(trial *record.Trial) { trial.Taint = []string{"steal"} }}.run(t),
	}
	unfinished := complete
	unfinished.Status, unfinished.Finished = record.Running, time.Time{}
	runs["no finish"] = unfinished
	for name, run := range runs {
		if err := validate(t, schema, document(t, run)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheSchemaRefusesWhatIsNoDocument(t *testing.T) {
	schema := schema(t)
	good := document(t, synthetic{seed: 51, blocks: 6, noise: 0.003, effects: map[string]float64{"docker": 0.95}}.run(t))
	for name, edit := range map[string][2]string{
		"another schema":    {`"urn:tare:run:2"`, `"urn:tare:run:1"`},
		"verdict":           {`"verdict": "worse"`, `"verdict": "bad"`},
		"a text for figure": {`"ratio": 1,`, `"ratio": "1",`},
		"an unknown field":  {`"noise_floor": 0`, `"noise": 1, "noise_floor": 0`},
	} {
		bad := strings.Replace(string(good), edit[0], edit[1], 1)
		if bad == string(good) {
			t.Errorf("%s: nothing to edit", name)
		}
		if err := validate(t, schema, []byte(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A field that is added to the document must be added to the schema.
func TestTheSchemaNamesEveryField(t *testing.T) {
	var walk func(at string, typ reflect.Type, in gjson.Result)
	root := gjson.ParseBytes(overhead.Schema)
	resolve := func(s gjson.Result) gjson.Result {
		for ref := s.Get("$ref"); ref.Exists(); ref = s.Get("$ref") {
			s = root.Get(`\$defs`).Get(strings.TrimPrefix(ref.String(), "#/$defs/"))
		}
		return s
	}
	walk = func(at string, typ reflect.Type, in gjson.Result) {
		in = resolve(in)
		switch typ.Kind() {
		case reflect.Pointer:
			if any := in.Get("anyOf.0"); any.Exists() {
				in = any
			}
			walk(at, typ.Elem(), in)
		case reflect.Slice:
			walk(at+"[]", typ.Elem(), in.Get("items"))
		case reflect.Map:
			walk(at+".*", typ.Elem(), in.Get("additionalProperties"))
		case reflect.Struct:
			if typ.PkgPath() == "time" || !in.Get("properties").Exists() && typ == reflect.TypeFor[platform.InForce]() {
				return
			}
			for _, field := range reflect.VisibleFields(typ) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if field.Anonymous || name == "" || name == "-" {
					continue
				}
				property := in.Get("properties").Get(name)
				if !property.Exists() {
					t.Errorf("%s.%s is not in the schema", at, name)
					continue
				}
				walk(at+"."+name, field.Type, property)
			}
		}
	}
	walk("document", reflect.TypeFor[overhead.Document](), root)
}

func TestWhatADocumentHolds(t *testing.T) {
	run := synthetic{seed: 54, blocks: 10, noise: 0.003, effects: map[string]float64{"docker": 0.95}}.run(t)
	run.Conditions[1].InForce = &platform.InForce{CPUSet: "0-1", Seccomp: 2}
	doc := gjson.ParseBytes(document(t, run))
	for path, want := range map[string]any{
		"schema":                               "urn:tare:run:2",
		"run.id":                               run.ID,
		"run.seed":                             7.0,
		"host.kernel":                          "6.1.0",
		"conditions.#":                         2.0,
		"conditions.0.baseline":                true,
		"conditions.0.overhead.get.ratio":      1.0,
		"conditions.0.overhead.get.verdict":    "baseline",
		"conditions.1.id":                      "redis@docker",
		"conditions.1.platform":                "docker",
		"conditions.1.setting.memory":          "512m",
		"conditions.1.workload":                "redis",
		"conditions.1.baseline":                false,
		"conditions.1.metrics.get.unit":        "requests/s",
		"conditions.1.metrics.get.better":      "higher",
		"conditions.1.metrics.get.n":           10.0,
		"conditions.1.metrics.get-p99.unit":    "us",
		"conditions.1.overhead.get.verdict":    "worse",
		"conditions.1.image.digest":            "sha256:00",
		"conditions.1.in_force.seccomp":        2.0,
		"workloads.0.blocks":                   10.0,
		"workloads.0.aa.get.n":                 10.0,
		"workloads.0.noise_floor.throttled":    nil, // counts with zeros have none
		"conditions.1.overhead.get.warnings.#": 0.0,
	} {
		if got := doc.Get(path); !got.Exists() || got.Value() != want {
			t.Errorf("%s is %v, want %v", path, got.Value(), want)
		}
	}
	for _, of := range []struct{ estimate, low, high string }{
		{"conditions.1.metrics.get.estimate", "conditions.1.metrics.get.low", "conditions.1.metrics.get.high"},
		{"conditions.1.overhead.get.ratio", "conditions.1.overhead.get.low", "conditions.1.overhead.get.high"},
		{"conditions.1.overhead.get.percent", "conditions.1.overhead.get.percent_low", "conditions.1.overhead.get.percent_high"},
	} {
		if low, value, high := doc.Get(of.low).Num, doc.Get(of.estimate).Num, doc.Get(of.high).Num; !(low < value && value < high) {
			t.Errorf("%s: %v not between %v and %v", of.estimate, value, low, high)
		}
	}
	if floor := doc.Get("noise_floor").Num; floor != doc.Get("workloads.0.noise_floor.get").Num || floor == 0 {
		t.Errorf("noise floor %v, want that of the one primary metric", floor)
	}
}

func TestDocumentsComeBackAsTheyWere(t *testing.T) {
	run := synthetic{seed: 55, blocks: 6, noise: 0.003, effects: map[string]float64{"docker": 0.95}}.run(t)
	want := overhead.NewDocument(run, overhead.Analyse(run, overhead.Options{}))
	var got overhead.Document
	if err := json.Unmarshal(document(t, run), &got); err != nil {
		t.Fatal(err)
	}
	equal := cmp.Comparer(func(a, b overhead.Number) bool {
		return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
	})
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Error(diff)
	}
}

func TestNumbersAreNullWhereTheyAreNone(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if data, err := json.Marshal(overhead.Number(v)); err != nil || string(data) != "null" {
			t.Errorf("%v is %s, %v", v, data, err)
		}
	}
	same := func(v float64) bool {
		data, err := json.Marshal(overhead.Number(v))
		var back overhead.Number
		return err == nil && json.Unmarshal(data, &back) == nil && float64(back) == v
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}

func TestRedactedTaintNamesNobodysProgram(t *testing.T) {
	run := synthetic{seed: 1, blocks: 1, effects: map[string]float64{"docker": 1}, edit: func(trial *record.Trial) {
		trial.Taint = []string{"foreign processes used 46.5 % of the host's CPU time (secret-tool most)"}
	}}.run(t)
	for _, trial := range overhead.Redact(run).Trials {
		if got := trial.Taint[0]; got != "foreign processes used 46.5 % of the host's CPU time" {
			t.Errorf("taint %q", got)
		}
	}
}
