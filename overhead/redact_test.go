package overhead

import (
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
