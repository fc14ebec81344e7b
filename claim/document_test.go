package claim_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"tare/claim"
)

func document(t testing.TB) []byte {
	t.Helper()
	settled, err := claim.Settle(finished("startup-1", noon), []claim.Judgement{judgement("S1.1", claim.Confirmed)})
	if err != nil {
		t.Fatal(err)
	}
	rows := claim.Rows(claim.All(), map[string]claim.Judgement{"S1.1": settled[0]}, func(c claim.Claim) bool { return c.Study == "startup" })
	var out bytes.Buffer
	if err := claim.JSON(&out, claim.NewDocument(here, rows, []string{"run startup-2 could not be judged"})); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(claim.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(claim.SchemaID, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(claim.SchemaID)
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
	if err := validate(t, schema, document(t)); err != nil {
		t.Error(err)
	}
	var none bytes.Buffer
	if err := claim.JSON(&none, claim.NewDocument(here, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if err := validate(t, schema, none.Bytes()); err != nil {
		t.Errorf("no claim at all: %v", err)
	}
}

func TestTheSchemaRefusesWhatIsNoDocument(t *testing.T) {
	schema, good := schema(t), string(document(t))
	for name, edit := range map[string][2]string{
		"another schema":        {claim.SchemaID, "urn:tare:claims:2"},
		"a verdict of no claim": {`"verdict": "confirmed"`, `"verdict": "proved"`},
		"no ground":             {`"rests": "20 blocks of docker"`, `"rests": ""`},
		"judged and not run":    {`"verdict": "confirmed"`, `"verdict": "not yet run"`},
		"run and not judged":    {`"verdict": "not yet run"`, `"verdict": "refuted"`},
		"an unknown field":      {`"short":`, `"brief": "", "short":`},
		"a text for a figure":   {`"value": 0.68`, `"value": "0.68"`},
	} {
		bad := strings.Replace(good, edit[0], edit[1], 1)
		if bad == good {
			t.Errorf("%s: nothing to edit", name)
		}
		if err := validate(t, schema, []byte(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWhatADocumentHolds(t *testing.T) {
	doc := gjson.ParseBytes(document(t))
	for path, want := range map[string]any{
		"schema":                                 claim.SchemaID,
		"host.hostname":                          "bench",
		"papers.#":                               5.0,
		"claims.#":                               float64(len(ids)),
		"notes.#":                                1.0,
		"claims.0.id":                            "S1.1",
		"claims.0.paper":                         "S1",
		"claims.0.verdict":                       "confirmed",
		"claims.0.runnable":                      true,
		"claims.0.judgement.run":                 "startup-1",
		"claims.0.judgement.when":                "2026-01-02T12:01:00Z",
		"claims.0.judgement.figures.0.low":       0.35,
		"claims.0.judgement.figures.0.n":         20.0,
		"claims.0.published.0.value":             0.68,
		"claims.0.published.0.low":               nil,
		"claims.0.published.0.bound":             "exactly",
		"claims.1.verdict":                       "not yet run",
		"claims.1.judgement":                     nil,
		"claims.4.runnable":                      false,
		`claims.#(id=="S1.9").published.1.low`:   10.87,
		`claims.#(id=="S1.9").published.1.value`: nil,
		`claims.#(id=="S1.9").published.1.bound`: "between",
	} {
		got := doc.Get(path)
		if !got.Exists() || got.Value() != want {
			t.Errorf("%s is %v, want %v", path, got.Value(), want)
		}
	}
}

// A field that is added to the document must be added to the schema.
func TestTheSchemaNamesEveryField(t *testing.T) {
	root := gjson.ParseBytes(claim.Schema)
	var walk func(at string, typ reflect.Type, in gjson.Result)
	walk = func(at string, typ reflect.Type, in gjson.Result) {
		if first := in.Get("anyOf.0"); first.Exists() {
			in = first
		}
		if ref := in.Get(`\$ref`); ref.Exists() {
			in = root.Get(`\$defs`).Get(strings.TrimPrefix(ref.String(), "#/$defs/"))
		}
		switch typ.Kind() {
		case reflect.Pointer:
			walk(at, typ.Elem(), in)
		case reflect.Slice:
			walk(at+"[]", typ.Elem(), in.Get("items"))
		case reflect.Struct:
			if typ.PkgPath() == "time" {
				return
			}
			for _, field := range reflect.VisibleFields(typ) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				property := in.Get("properties").Get(name)
				if name == "" || !property.Exists() {
					t.Errorf("%s.%s (%s) is not in the schema", at, field.Name, name)
					continue
				}
				walk(at+"."+name, field.Type, property)
			}
		}
	}
	walk("document", reflect.TypeFor[claim.Document](), root)
}
