package lab

import (
	"errors"
	"os"
	"strings"
	"testing"

	"tare/kernel/hugepages"
	"tare/platform"
)

// fakeHugePages are a kernel's, whose setting takes effect or not.
type fakeHugePages struct {
	set     string
	inForce string // whatever is set; empty: what is set
	fails   string // the word that cannot be written
}

func (f *fakeHugePages) Set() (string, error) { return f.set, nil }

func (f *fakeHugePages) InForce() (string, error) {
	if f.inForce != "" {
		return f.inForce, nil
	}
	return f.set, nil
}

func (f *fakeHugePages) Write(word string) error {
	if word == f.fails {
		return errors.New("read-only")
	}
	f.set = word
	return nil
}

// The ledger keeps what huge pages were set to for as long as they are set otherwise.
func TestTheLedgerKnowsOfHugePages(t *testing.T) {
	for name, c := range map[string]struct {
		host    fakeHugePages
		refused string
		during  int // entries while set
		then    string
		left    int // entries after
	}{
		"as asked":              {fakeHugePages{set: "madvise"}, "", 1, "madvise", 0},
		"set already":           {fakeHugePages{set: "always"}, "", 0, "always", 0},
		"without effect":        {fakeHugePages{set: "madvise", inForce: "never"}, "has never in force", 0, "madvise", 0},
		"not to be set":         {fakeHugePages{set: "madvise", fails: "always"}, "read-only", 0, "madvise", 0},
		"not to be put back":    {fakeHugePages{set: "madvise", fails: "madvise"}, "", 1, "always", 1},
		"another's, meanwhile":  {fakeHugePages{set: "madvise"}, "", 1, "never", 0},
		"neither back nor kept": {fakeHugePages{set: "madvise", inForce: "never", fails: "madvise"}, "tare clean", 1, "always", 1},
	} {
		ledger := &counting{}
		restore, err := setHugePages(&c.host, ledger, "always")
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if err == nil {
			if c.host.set != "always" || ledger.entries != c.during {
				t.Errorf("%s: set to %s, with %d entries, want %d", name, c.host.set, ledger.entries, c.during)
			}
			if c.then == "never" {
				c.host.set = c.then
			}
			var unrestored *Unrestored
			if err := restore(); (err != nil) != (c.left > 0) || err != nil && !errors.As(err, &unrestored) {
				t.Errorf("%s: put back: %v", name, err)
			}
		}
		if c.host.set != c.then || ledger.entries != c.left {
			t.Errorf("%s: then %s, with %d entries, want %s and %d", name, c.host.set, ledger.entries, c.then, c.left)
		}
	}
}

// What was set before the kernel started anew is not put back: the setting is nobody's any more.
func TestASettingOfAnEarlierStartIsLeft(t *testing.T) {
	var host hugepages.Directory
	if os.Geteuid() != 0 || host.Settable() != nil {
		t.Skip("sets the host's transparent huge pages, which takes root")
	}
	have, err := host.Set()
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"always": "madvise"}[have]
	if other == "" {
		other = hugepages.Always
	}
	t.Cleanup(func() { _ = restoreHugePages(host, have, other) })
	if err := removeHostEntry(platform.Entry{
		Platform: hostEntry, Kind: hugePagesKind, ID: have, Attrs: map[string]string{hugePagesFound: other, hostBoot: "another"},
	}); err != nil {
		t.Error(err)
	}
	if now, err := host.Set(); now != have || err != nil {
		t.Errorf("it was %s and is %s, %v", have, now, err)
	}
}

// What a killed tare had set is put back by `tare clean`, from its ledger alone.
func TestAKilledRunsHugePagesArePutBack(t *testing.T) {
	var host hugepages.Directory
	if os.Geteuid() != 0 || host.Settable() != nil {
		t.Skip("sets the host's transparent huge pages, which takes root")
	}
	found, err := host.Set()
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{"always": "madvise"}[found]
	if ours == "" {
		ours = hugepages.Always
	}
	dir := t.TempDir()
	ledger, err := OpenLedger(dir, "killed")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HugePages(ledger, ours); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restoreHugePages(host, found, ours) })
	if have, err := host.InForce(); have != ours || err != nil {
		t.Errorf("in force is %s (%v), want %s", have, err, ours)
	}
	// The kernel lets go of a killed process's lock, and its entries stand.
	if err := ledger.file.Close(); err != nil {
		t.Fatal(err)
	}
	none := func(string) (platform.Platform, error) { return nil, errors.New("no platform is asked") }
	cleaned, err := Clean(t.Context(), dir, none, false)
	if err != nil || len(cleaned.Removed) != 1 || len(cleaned.Failed) > 0 {
		t.Errorf("cleaned %+v, %v", cleaned, err)
	}
	if have, err := host.Set(); have != found || err != nil {
		t.Errorf("transparent huge pages are set to %s (%v), and were to %s", have, err, found)
	}
}
