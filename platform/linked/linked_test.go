package linked

import (
	"context"
	"net/netip"
	"testing"

	"tare/platform"
	"tare/platform/held"
)

// The host's network takes nothing to make.
func TestHostNetwork(t *testing.T) {
	for _, kind := range []platform.Network{"", platform.NetworkHost} {
		got, err := Make(t.Context(), held.New(refusing{}), "test", kind, "/not/used")
		if want := (Network{Address: netip.MustParseAddr("127.0.0.1")}); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", kind, got, err, want)
		}
	}
}

// refusing is a ledger that nothing may be entered in.
type refusing struct{}

func (refusing) Add(platform.Entry) (func(), error) { return nil, context.Canceled }

// Nothing is made without its entry.
func TestNothingWithoutAnEntry(t *testing.T) {
	for _, kind := range []platform.Network{platform.NetworkNone, platform.NetworkBridge} {
		if got, err := Make(t.Context(), held.New(refusing{}), "test", kind, t.TempDir()+"/netns"); err == nil {
			t.Errorf("%s: made %+v", kind, got)
		}
	}
}

func TestForeignEntriesAreLeftAlone(t *testing.T) {
	for _, e := range []platform.Entry{
		{ID: "lo"}, {ID: "lo", Attrs: map[string]string{held.MAC: "00:00:00:00:00:00"}},
		{ID: "tare-1"}, {ID: bridgeName},
	} {
		if err := RemoveLink(t.Context(), e); err == nil {
			t.Errorf("%v: removed", e)
		}
	}
	for _, file := range []string{"/proc/self/ns/net", "/state/trials/netns", "/elsewhere/x/netns", "/state/trials/x/y/netns"} {
		if err := RemoveNamespace("/state/trials", platform.Entry{ID: file}); err == nil {
			t.Errorf("%s: removed", file)
		}
	}
}
