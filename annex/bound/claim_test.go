package bound

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One program at a time manages the same memory, however it names it; another's memory is
// another's. What is given up leaves nothing.
func TestClaim(t *testing.T) {
	l := one(t)
	root := l.Hierarchies[0].Mount
	dir := filepath.Join(t.TempDir(), "run")
	box := bounded(t, l, Options{Group: "/box"})
	first, err := box.Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/box", root + "/box", "/box/"} {
		claimed := new(Claimed)
		if _, err := bounded(t, l, Options{Group: name}).Claim(dir); !errors.As(err, &claimed) || claimed.Group != "/box" || !strings.Contains(err.Error(), claimed.Lock) {
			t.Errorf("%s, claimed a second time: %v", name, err)
		}
	}
	// The host around it, and a group in it.
	var others []*Claim
	for _, name := range []string{"", "/box/a"} {
		c, err := bounded(t, l, Options{Group: name}).Claim(dir)
		if err != nil {
			t.Fatalf("%q beside /box: %v", name, err)
		}
		others = append(others, c)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 3 {
		t.Errorf("%q, %v: want one for each claim", files, err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := box.Claim(dir)
	if err != nil {
		t.Fatalf("after it was given up: %v", err)
	}
	for _, c := range append(others, again) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// What a killed program left is removed, and what somebody has is not.
func TestUnclaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := Unclaim(dir, "/box"); err != nil {
		t.Errorf("where nothing was: %v", err)
	}
	held, err := claim(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	left := claimFile(dir, "/box")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Unclaim(dir, "/box"), Unclaim(dir, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there still: %v", err)
	}
	if _, err := os.Lstat(claimFile(dir, "")); err != nil {
		t.Errorf("another's: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}

// Every group has a file of its own, whose name every file system takes.
func TestClaimFile(t *testing.T) {
	seen := map[string]string{}
	long := "/" + strings.Repeat("kubepods.slice/", 30)
	for _, group := range []string{"", "/host", "/a/b", "/a-b", "/a%2Fb", "/a\nb", "/ä", long + "a", long + "b"} {
		file := claimFile("/run/annex", group)
		if before, is := seen[file]; is {
			t.Errorf("%q and %q have the same file %s", before, group, file)
		}
		seen[file] = group
		if filepath.Dir(file) != "/run/annex" || len(filepath.Base(file)) > 255 || strings.ContainsAny(filepath.Base(file), "\n ") {
			t.Errorf("%q: %q", group, file)
		}
	}
}
