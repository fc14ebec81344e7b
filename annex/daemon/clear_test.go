package daemon

import (
	"os"
	"strings"
	"testing"

	"tare/annex/media"
	"tare/kernel/swap"
)

// medium is one of a kind, at a path.
type medium struct {
	media.Medium
	kind media.Kind
	path string
}

func (m medium) Kind() media.Kind { return m.kind }
func (m medium) Name() string     { return m.path }

// Memory that leaves in clear text is told of, and where that is not known; compressed memory reaches no device.
func TestInClear(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		kind      media.Kind
		encrypted *bool
		says      string
	}{
		{media.File, &no, "is not encrypted"}, {media.Device, nil, "is not known"}, {media.Device, &yes, ""}, {media.ZRAM, nil, ""},
	} {
		text := strings.Join(inClear(medium{kind: c.kind, path: "/var/swap"}, c.encrypted), "\n")
		if (text == "") != (c.says == "") || !strings.Contains(text, c.says) || text != "" && !strings.Contains(text, "/var/swap") {
			t.Errorf("%s: %q, want %q", c.kind, text, c.says)
		}
	}
	if is := encrypted(swap.Host{}, medium{kind: media.File, path: "/there-is-no-such-file"}); is != nil {
		t.Errorf("of what is not there: %v", *is)
	}
	file := t.TempDir() + "/swap"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	device, err := swap.Host{}.Below(file)
	if err != nil {
		t.Skip(err)
	}
	if want, err := (swap.Host{}).Encrypted(device); err == nil {
		if is := encrypted(swap.Host{}, medium{kind: media.File, path: file}); is == nil || *is != want {
			t.Errorf("%s on %s: %v, want %v", file, device, is, want)
		}
	}
}
