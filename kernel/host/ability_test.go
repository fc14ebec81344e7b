package host

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestEveryLackHasItsMend(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range probes {
		if seen[p.name] {
			t.Errorf("two abilities are named %s", p.name)
		}
		seen[p.name] = true
		p.try = func() (string, error) { return "", errors.New("refused") }
		if a := p.ability(); a.OK || a.Detail != "refused" || a.Mend == "" {
			t.Errorf("%+v", a)
		}
	}
	better := probe{name: "x", mend: "general", try: func() (string, error) { return "", &lack{"found", "better"} }}
	if a := better.ability(); a.Mend != "better" || a.Detail != "found" {
		t.Errorf("%+v", a)
	}
}

func TestAbilitiesOfThisHost(t *testing.T) {
	before := namespaces(t)
	abilities := Abilities()
	if len(abilities) != len(probes) {
		t.Fatalf("%d abilities, want %d", len(abilities), len(probes))
	}
	for _, a := range abilities {
		t.Logf("%-22s %-5v %s [%s]", a.Name, a.OK, a.Detail, a.Mend)
		if a.Detail == "" || strings.Contains(a.Detail, "\n") {
			t.Errorf("%s: detail %q, want one line", a.Name, a.Detail)
		}
		if a.OK != (a.Mend == "") {
			t.Errorf("%s: OK %v with mend %q", a.Name, a.OK, a.Mend)
		}
		if a.Name == "root" && a.OK != (os.Geteuid() == 0) {
			t.Errorf("root: %v as user %d", a.OK, os.Geteuid())
		}
	}
	// Nothing is left behind.
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "tare-doctor-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	// The program's first thread, which /proc/PID stands for, is where it was.
	if after := namespaces(t); after != before {
		t.Errorf("the program is in %v, was in %v", after, before)
	}
}

func namespaces(t *testing.T) [2]string {
	t.Helper()
	var ids [2]string
	for i, kind := range []string{"mnt", "net"} {
		id, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "ns", kind))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	return ids
}
