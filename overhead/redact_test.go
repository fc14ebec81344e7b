package overhead

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"tare/record"
)

// Wherever a secret path stands in a text, no part of it remains.
func FuzzRedact(f *testing.F) {
	for _, around := range []string{"", "open PATH: no such file", `"PATH"`, "--out=PATH", "PATH,PATH", "user@PATH:1", "é PATH\n", "x/PATH", "~bob PATH"} {
		f.Add(around)
	}
	f.Fuzz(func(t *testing.T, around string) {
		const secret = "/srv/acme9/key7"
		run := record.Run{Reason: strings.ReplaceAll(around, "PATH", secret), Host: record.Host{Hostname: "falcon8"}}
		run.Plan.Notes = []string{around + " falcon8 " + around}
		redacted := Redact(run)
		if strings.Contains(around, "acme9") || strings.Contains(around, "key7") || strings.Contains(around, "falcon8") {
			return // what was put in beside the secret is not this test's
		}
		for _, part := range []string{"acme9", "key7"} {
			if strings.Contains(redacted.Reason, part) {
				t.Errorf("%q became %q", run.Reason, redacted.Reason)
			}
		}
		if strings.Contains(redacted.Plan.Notes[0], "falcon8") {
			t.Errorf("%q became %q", run.Plan.Notes[0], redacted.Plan.Notes[0])
		}
		if again := Redact(redacted); again.Reason != redacted.Reason && !strings.Contains(again.Reason, "[path-") {
			t.Errorf("%q redacted again is %q", redacted.Reason, again.Reason)
		}
	})
}

// ownWords are the fields in which tare, the kernel and packages alone write words, and the names of
// metrics and parameters.
var ownWords = []string{
	".ID", ".Study", ".Version", ".Status", ".Host", ".Plan.Design", ".Plan.Imported.Format", ".Plan.Part.Study",
	".Plan.Imported.Sources.SHA256", ".Plan.Rounds.Rate", ".Plan.Layers.Metric", ".Plan.Layers.Steps.Layer",
	".Conditions.Params.key", ".Conditions.Setting", ".Conditions.Factors", ".Conditions.Metrics",
	".Conditions.Image", ".Conditions.Packages", ".Conditions.InForce", ".Trials.Samples", ".Trials.Histograms",
	".Trials.Covariates", ".Trials.Attachments", ".Trials.Slices.Part", ".Trials.Slices.Control",
	".Trials.Slices.Histogram",
}

// In whichever field a path stands, it is gone.
func TestRedactKnowsEveryField(t *testing.T) {
	var run record.Run
	fill(reflect.ValueOf(&run).Elem(), "/srv/acme9/key7")
	eachText(reflect.ValueOf(Redact(run)), "", func(field, text string) {
		own := slices.ContainsFunc(ownWords, func(o string) bool { return field == o || strings.HasPrefix(field, o+".") })
		if strings.Contains(text, "acme9") && !own {
			t.Errorf("%s still holds %q", field, text)
		}
	})
}

// fill puts a text wherever a value takes one.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.SetMapIndex(key, value)
	}
}

// eachText visits what fill has put there.
func eachText(v reflect.Value, field string, visit func(field, text string)) {
	switch v.Kind() {
	case reflect.String:
		visit(field, v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), field, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), field+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), field, visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			eachText(key, field+".key", visit)
			eachText(v.MapIndex(key), field, visit)
		}
	}
}

func TestRedactHidesValuesOfFlags(t *testing.T) {
	run := record.Run{Command: []string{
		"/opt/tare", "weigh", "--env", "KEY=s3cr3t", "--user=s3cr3t", "--entrypoint", "s3cr3t", "--env=K=s3cr3t", "--quick", "--", "s3cr3t",
	}}
	want := "tare weigh --env [value] --user=[value] --entrypoint [value] --env=[value] --quick -- [command]"
	if got := strings.Join(Redact(run).Command, " "); got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
}
