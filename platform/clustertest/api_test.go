package clustertest

import (
	"errors"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	const added = `{"type":"ADDED","object":{"n":1}}` + "\n"
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		events  string
		wanted  string
		err     error
		found   bool
		failure string
	}{
		"found later":         {events: added + `{"type":"MODIFIED","object":{"n":2}}`, wanted: `{"n":2}`, found: true},
		"ended by the server": {events: added, wanted: `{"n":2}`},
		"cut":                 {events: added + `{"type":`, wanted: `{"n":2}`, failure: "unexpected EOF"},
		"too old":             {events: `{"type":"ERROR","object":{"code":410}}`, failure: `ends the watch: {"code":410}`},
		"judged as failed":    {events: added, err: failed, failure: "failed"},
	} {
		found, err := watch(strings.NewReader(c.events), func(object []byte) (bool, error) {
			return string(object) == c.wanted, c.err
		})
		if found != c.found || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %v, %v; want %v, %q", name, found, err, c.found, c.failure)
		}
	}
}
