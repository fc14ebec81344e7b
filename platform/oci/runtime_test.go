package oci

import (
	"strings"
	"testing"
)

const logText = `{"level":"warning","msg":"cgroup: not there","time":"2026-01-02T03:04:05Z"}
{"level":"error","msg":"runc run failed: unable to start container process: exec: \"/nope\": no such file\n","time":"2026-01-02T03:04:05Z"}
not json
`

func TestLastError(t *testing.T) {
	if got := lastError(strings.NewReader(logText)); !strings.HasSuffix(got, `exec: "/nope": no such file`) {
		t.Errorf("%q", got)
	}
	if got := lastError(strings.NewReader("")); got != "" {
		t.Errorf("an empty log says %q", got)
	}
}

func FuzzLastError(f *testing.F) {
	f.Add(logText)
	f.Fuzz(func(t *testing.T, s string) { _ = lastError(strings.NewReader(s)) })
}
