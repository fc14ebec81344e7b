package guest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/platform/vm/guest"
)

// A program that needs a loader finds none in a machine.
func TestBuildRefusesDynamicAgent(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	store, err := image.OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = guest.Build(t.Context(), guest.BuildOptions{Store: store, Agent: sh, Dir: t.TempDir()})
	var missing *image.Missing
	if !errors.As(err, &missing) || !strings.Contains(missing.What, sh) || !strings.Contains(missing.Mend, "make build") {
		t.Errorf("%v, want an *image.Missing with the mend", err)
	}
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if boot, err := guest.Build(t.Context(), guest.BuildOptions{Store: store, Agent: text, Dir: t.TempDir()}); err == nil {
		t.Errorf("an agent that is no program gave %+v", boot)
	}
}

// What is made once is found, and the initial root is the same bytes each time.
func TestBuildOnce(t *testing.T) {
	first := built(t)
	store, err := image.OpenStore(filepath.Join(cache(t), "images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	options := guest.BuildOptions{Store: store, Dir: filepath.Dir(filepath.Dir(first.Kernel))}
	before, err := os.Stat(first.Root)
	if err != nil {
		t.Fatal(err)
	}
	again, err := guest.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(again.Root)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it was made again: %v", err)
	}
	options.Dir = t.TempDir()
	elsewhere, err := guest.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(first.Initrd)
	b, errB := os.ReadFile(elsewhere.Initrd)
	if errA != nil || errB != nil || string(a) != string(b) || first.Digest != elsewhere.Digest {
		t.Errorf("two builds differ: %s, %s, %v, %v", first.Digest, elsewhere.Digest, errA, errB)
	}
	// One that is torn is made again.
	if err := os.Remove(elsewhere.Root); err != nil {
		t.Fatal(err)
	}
	if elsewhere, err = guest.Build(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(elsewhere.Root); err != nil {
		t.Error(err)
	}
}
