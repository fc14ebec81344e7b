package linked

import (
	"context"
	"errors"
	"net/netip"
	"os"
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

// A client's place is made as an instance's is, or not at all.
func TestNoClientWithoutAnEntry(t *testing.T) {
	state := t.TempDir()
	spec := ClientSpec{StateDir: state, Ledger: refusing{}, Platform: "test", Name: "client"}
	if _, err := NewClient(t.Context(), spec); !errors.Is(err, context.Canceled) {
		t.Errorf("made one: %v", err)
	}
	if left, err := os.ReadDir(state + "/trials"); len(left) > 0 || err != nil {
		t.Errorf("left %v (%v)", left, err)
	}
	spec.Name = "../elsewhere"
	if _, err := NewClient(t.Context(), spec); err == nil {
		t.Error("made one elsewhere")
	}
}
