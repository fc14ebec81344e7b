package platform

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/cgroup"
)

func TestGroupsAreNamesBelowTheParent(t *testing.T) {
	for group, ok := range map[string]bool{
		"": true, "box-1": true, "box-1/idle": true, "7/idle": true,
		"/box-1": false, "box-1/": false, "box-1//idle": false, "..": false, "box-1/../..": false, ".": false,
		"Box": false, "box_1": false, "box 1": false, "-box": false, "box\n": false, "tare": false, "box/tare-bare": false,
	} {
		err := Spec{Group: group}.CheckGroup()
		var bad *BadGroup
		if (err == nil) != ok || err != nil && (!errors.As(err, &bad) || bad.Group != group) {
			t.Errorf("%q: %v", group, err)
		}
	}
}

func TestParent(t *testing.T) {
	for group, want := range map[string]string{"": "/tare", "box-1/idle": "/tare/box-1/idle"} {
		if got := (Spec{Group: group}).Parent(); got != want {
			t.Errorf("%q: %s, want %s", group, got, want)
		}
	}
}

// A group that nobody has made is not made by who would run in it.
func TestGroupsAreFound(t *testing.T) {
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{
		{Version: 1, Controllers: []string{"memory"}, Mount: t.TempDir(), Root: "/"},
		{Version: 2, Mount: t.TempDir(), Root: "/"},
	}}
	inside := Spec{Group: "box-1/idle"}
	var bad *BadGroup
	if err := inside.FindGroup(layout); !errors.As(err, &bad) {
		t.Errorf("what is not there is found: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(layout.Hierarchies[1].Mount, "tare/box-1/idle"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{inside, {}} {
		if err := s.FindGroup(layout); err != nil {
			t.Errorf("%q: %v", s.Group, err)
		}
	}
	if err := (Spec{Group: "../box-1"}).FindGroup(layout); !errors.As(err, &bad) {
		t.Errorf("a path that leads elsewhere is found: %v", err)
	}
}
