package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/data"
	"tare/annex/predict"
	"tare/container"
)

func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("annex.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ExampleParse() {
	c, err := config.Parse("annex.toml", []byte(`
mode = "manage"

[memory]
headroom = "256MiB"

[[rule]]
class = "elastic"
label = "tier=idle"
`))
	fmt.Println(c.Mode, config.FormatSize(c.Memory.Headroom), c.Class(container.Container{Labels: map[string]string{"tier": "idle"}}), err)
	// Output: manage 256MiB elastic <nil>
}

func ExampleParse_errors() {
	_, err := config.Parse("annex.toml", []byte(`[memory]
hedroom = "64MiB"
high = 96

[[rule]]
class = "elastc"
name = "web-*"
`))
	fmt.Println(err)
	// Output:
	// annex.toml:2: memory.hedroom: is no key of memory: did you mean headroom?
	// annex.toml:3: memory.high: is the number 96: want a text in quotes, as "64MiB"
	// annex.toml:6: rule[0].class: is "elastc": want "critical", "elastic" or "ignored"
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	if d := cmp.Diff(config.Default(), parse(t, "")); d != "" {
		t.Error(d)
	}
}

// As editors of Windows write a file.
func TestByteOrderMark(t *testing.T) {
	c := parse(t, "\xef\xbb\xbfmode = \"manage\"\r\n\r\n[[rule]]\r\nclass = \"elastic\"\r\nname = \"web-*\"\r\n")
	if c.Mode != config.Manage || len(c.Rules) != 1 || c.Rules[0].Name != "web-*" {
		t.Errorf("%+v", c)
	}
	_, err := config.Parse("f", []byte("\xef\xbb\xbf\r\nmood = 1\r\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "f:2: mood") {
		t.Error(err)
	}
}

// A backslash of a name is written twice, since it escapes in a pattern, and in "..." four times.
func TestEscapedNames(t *testing.T) {
	for _, text := range []string{`'/a/b\\x2dc.service'`, `"/a/b\\\\x2dc.service"`} {
		c := parse(t, "[[rule]]\nclass = \"elastic\"\ncgroup = "+text)
		if len(c.Rules) != 1 || !strings.Contains(c.Rules[0].Cgroup, `b\\x2dc`) {
			t.Errorf("%s: %+v", text, c.Rules)
		}
	}
}

func TestExampleIsTheDefault(t *testing.T) {
	if d := cmp.Diff(config.Default(), parse(t, config.Example())); d != "" {
		t.Error(d)
	}
}

func TestExampleOfRulesAndTiers(t *testing.T) {
	// What stands in comments without a space is to be taken out of them.
	text := regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(config.Example(), "$1")
	c := parse(t, text)
	if len(c.Rules) == 0 || len(c.Tiers) == 0 {
		t.Fatalf("the example has %d rules and %d tiers", len(c.Rules), len(c.Tiers))
	}
	if again := parse(t, c.String()); !reflect.DeepEqual(again, c) {
		t.Error(cmp.Diff(c, again))
	}
}

func TestStringSaysEverything(t *testing.T) {
	c := config.Default()
	c.Mode = config.Manage
	c.Memory = config.Memory{Defend: "/machine.slice", Headroom: 100e6, High: 200e6, Reserve: 1 << 20, SwapReserve: 0.125}
	c.Scan.Most = 90 * time.Second
	c.Predictors.Intervals = false
	c.Control.Metrics = "[::1]:9464"
	c.Log.File = ""
	c.Rules = []config.Rule{{Class: annex.Critical, Name: `quo"te\\d`, Cgroup: "/a/*"}}
	c.Tiers = []config.Tier{{Area: "/dev/vdb", WriteRate: 10 << 20}, {Area: "/var/swap", WriteDaily: 3e9, Endurance: 150e12, Years: 2.5}}
	if d := cmp.Diff(c, parse(t, c.String())); d != "" {
		t.Error(d)
	}
}

// The same defaults stand in the packages that are configured, for those who use them
// without a file.
func TestDefaultsAreThoseOfTheParts(t *testing.T) {
	c := config.Default()
	p := data.Headroom{Low: c.Memory.Headroom, High: c.Memory.High, Reserve: c.Memory.Reserve}
	if p.High != p.Low+p.Low/2 || p.Reserve != p.Low/4 {
		t.Errorf("marks of %d, %d, reserve %d: want data's proportions", p.Low, p.High, p.Reserve)
	}
	for _, k := range predict.Kinds {
		if !c.Predictors.On(k) {
			t.Errorf("predictor %s is off by default", k)
		}
	}
	if c.Predictors.On("another") {
		t.Error("an unknown predictor is on")
	}
}

func TestLongestSocket(t *testing.T) {
	longest := "/" + strings.Repeat("s", 106)
	if c := parse(t, "[control]\nsocket = \""+longest+"\""); c.Control.Socket != longest {
		t.Errorf("of %d bytes: %q", len(longest), c.Control.Socket)
	}
}

func TestHeadroomAloneMovesItsMarks(t *testing.T) {
	for text, want := range map[string][3]int64{
		"":                                       {64 << 20, 96 << 20, 16 << 20},
		"[memory]\nheadroom = \"1GiB\"":          {1 << 30, 3 << 29, 16 << 20},
		"[memory]\nheadroom = \"8MiB\"":          {8 << 20, 96 << 20, 2 << 20},
		"memory = { headroom = \"1GiB\" }":       {1 << 30, 3 << 29, 16 << 20},
		"memory.headroom = \"1024 MiB\"":         {1 << 30, 3 << 29, 16 << 20},
		"[memory]\n\"head\\u0072oom\" = \"2GB\"": {2e9, 3e9, 16 << 20},
	} {
		m := parse(t, text).Memory
		if got := [3]int64{m.Headroom, m.High, m.Reserve}; got != want {
			t.Errorf("%q: headroom, high, reserve %v, want %v", text, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		text  string
		wants []string // each in one line of the error
	}{
		{"mode = \"manage", []string{`f:1: .*TOML`}},
		{"mode = \"manage\"\nmode = \"manage\"", []string{`f:2: .*mode`}},
		{"mode = \"off\"", []string{`^f:1: mode: is "off": want "observe" or "manage"$`}},
		{"mode = true", []string{`^f:1: mode: is true: want a text in quotes, as "observe"$`}},
		{"version = 2", []string{`^f:1: version: is the number 2: this annex reads version 1$`}},
		{"\n\nmood = 1", []string{`^f:3: mood: is no key: did you mean mode\?$`}},
		{"zebra = 1", []string{`^f:1: zebra: is no key: there are activity, cold, `}},
		{"[memory]\nheadroom = \"64MiB\"\nmode = \"manage\"", []string{`^f:3: memory.mode: is no key of memory: it stands above all tables$`}},
		{"[scan]\nversion = 1", []string{`^f:2: scan.version: is no key of scan: it stands above all tables$`}},
		{"headroom = \"64MiB\"", []string{`^f:1: headroom: is no key: it stands below \[memory\]$`}},
		{"[scan]\ncritical = true", []string{`is no key of scan: it stands below \[pressure\] or below \[protect\]$`}},
		{"class = \"elastic\"", []string{`^f:1: class: is no key: it stands below \[\[rule\]\]$`}},
		{"[[rule]]\narea = \"/s\"\nclass = \"elastic\"\nname = \"a\"", []string{`^f:2: rule\[0\].area: is no key of rule\[0\]: it stands below \[\[tier\]\]$`}},
		{"[[rule]]\nname = \"a\\.b\"", []string{`^f:2: .*in "..." a backslash stands for itself only where it is written twice; in '...' it always does$`}},
		{"[[rule]]\nclass = \"elastic\"\ncgroup = \"/system.slice/a\\x2db.service\"", []string{`^f:3: rule\[0\].cgroup: has \\x in "...", .*'a\\\\x2db'$`}},
		{"m\x00o\x00d\x00e\x00", []string{`^f: the file holds bytes of zero, as UTF-16 does: save it as UTF-8$`}},
		{"[memori]\n", []string{`^f:1: memori: is no key: did you mean memory\?$`}},
		{"memory = 5", []string{`^f:1: memory: is the number 5: want a table, begun by a line \[memory\]$`}},
		{"[memory]\n\n  headroom = \"512KiB\"", []string{`^f:3: memory.headroom: is 512KiB: want 1MiB to 1TiB$`}},
		{"[memory]\nheadroom = \"64\"", []string{`^f:2: memory.headroom: "64" is no size, which is a number with B, [^:]*TB: want it as "64MiB"$`}},
		{"[memory]\nheadroom = \"-64MiB\"", []string{`no size`}},
		{"[memory]\nheadroom = \"1e3MiB\"", []string{`no size`}},
		{"[memory]\nheadroom = \"0.3B\"", []string{`no whole number`}},
		{"[memory]\nheadroom = \"99999999999TiB\"", []string{`no whole number`}},
		{"[memory]\nheadroom = [\"64MiB\"]", []string{`is a list`}},
		{"[memory]\nhigh = \"32MiB\"", []string{`^f:2: memory.high: is 32MiB, below headroom, which is 64MiB`}},
		{"[memory]\nheadroom = \"64\"\nhigh = \"48MiB\"\nreserve = \"70MiB\"", []string{`^f:2: memory.headroom: "64" is no size`}},
		{"[scan]\nleast = \"5\"\nmost = \"1s\"", []string{`^f:2: scan.least: .*want a time`}},
		{"[memory]\nreserve = \"64MiB\"", []string{`^f:2: memory.reserve: `}},
		{"[memory]\ndefend = \"machine.slice\"", []string{`want "host", or`}},
		{"[memory]\ndefend = \"/\"", []string{`want "host", or`}},
		{"[memory]\ndefend = \"/a/../b\"", []string{`want "host", or`}},
		{"[memory]\nswap_reserve = 0.1", []string{`is the number 0.1: want a text in quotes, as "10%"`}},
		{"[memory]\nswap_reserve = \"0.1\"", []string{`want percent`}},
		{"[pressure]\ncritical = \"NaN%\"", []string{`want percent`}},
		{"[pressure]\ncritical = \"101%\"", []string{`want 0.01% to 100%`}},
		{"[scan]\nleast = \"5\"", []string{`want a time with its unit`}},
		{"[scan]\nleast = \"1m\"", []string{`^f:1: scan.most: is 30s, below least, which is 1m`}},
		{"[activity]\nprobe_pages = 1.5", []string{`want a whole number`}},
		{"[activity]\nprobe_pages = 0", []string{`want 1 to 1048576`}},
		{"[predictors]\nrecord = \"on\"", []string{`want true or false, without quotes`}},
		{"[control]\nsocket = \"annex.sock\"", []string{`want a whole path`}},
		{"[control]\nsocket = \"\"", []string{`is empty`}},
		{"[control]\n\nsocket = \"/" + strings.Repeat("s", 107) + "\"", []string{`^f:3: control.socket: is a path of 108 bytes, and the address of a Unix socket has 107 at most: want a shorter one$`}},
		{"[control]\nsocket = \"/run/a\\u0007nnex\"", []string{`control characters`}},
		{"[control]\nmetrics = \"0.0.0.0:9464\"", []string{`only a loopback address`}},
		{"[control]\nmetrics = \"localhost:9464\"", []string{`only a loopback address`}},
		{"[control]\nmetrics = \":9464\"", []string{`only a loopback address`}},
		{"[control]\nmetrics = \"127.0.0.1:0\"", []string{`its port`}},
		{"[control]\nmetrics = \"127.0.0.1\"", []string{`with its port`}},
		{"rule = 1", []string{`want tables, each begun by a line \[\[rule\]\]`}},
		{"rule = [1]", []string{`^f:1: rule\[0\]: is the number 1`}},
		{"[rule]\nclass = \"elastic\"", []string{`^f:1: rule: is a table: want tables`}},
		{"[[rule]]\nname = \"a\"\n[[rule]]\nclass = \"elastic\"", []string{`^f:1: rule\[0\]: has no class`, `^f:3: rule\[1\]: fits nothing`}},
		{"[[rule]]\nclass = \"elastic\"\nname = \"a\"\n[[rule]]\nclass = \"elastic\"\nlabl = \"b\"", []string{`^f:6: rule\[1\].labl: is no key of rule\[1\]: did you mean label\?`}},
		{"rule = [{class = \"elastic\", name = \"a\"},\n {class = \"elastic\", cgroup = \"b\"}]", []string{`^f:2: rule\[1\].cgroup: .*from / on`}},
		{"[[rule]]\nclass = \"elastic\"\nlabel = \"=x\"", []string{`^f:3: rule\[0\].label`}},
		{"[[tier]]\nwrite_rate = \"5MiB\"", []string{`^f:2: tier\[0\].write_rate: is "5MiB": want it as "100MiB/s"`, `^f:1: tier\[0\]: has no area`}},
		{"[[tier]]\narea = \"/s\"\n[[tier]]\narea = \"/s\"", []string{`^f:4: tier\[1\].area: .*one tier an area`}},
		{"[[tier]]\narea = \"/s\"\nendurance = \"600TB\"", []string{`^f:1: tier\[0\]: endurance and years go together`}},
		{"[[tier]]\narea = \"/s\"\nyears = 1000\nendurance = \"600TB\"", []string{`^f:3: tier\[0\].years: is 1000`}},
		{"[[tier]]\narea = \"/s\"\nyears = nan\nendurance = \"600TB\"", []string{`^f:3: tier\[0\].years: `}},
		{"\"a\\nb\" = 1", []string{`^f:1: "a\\nb": is no key`}},
	} {
		_, err := config.Parse("f", []byte(c.text))
		var invalid *config.Invalid
		if !errors.As(err, &invalid) {
			t.Errorf("%q: error %v, want an Invalid", c.text, err)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for _, want := range c.wants {
			if !slices.ContainsFunc(lines, regexp.MustCompile(want).MatchString) {
				t.Errorf("%q: says\n\t%s\nwant a line like %s", c.text, strings.Join(lines, "\n\t"), want)
			}
		}
		if len(lines) != len(c.wants) {
			t.Errorf("%q: says %d lines, want %d:\n\t%s", c.text, len(lines), len(c.wants), strings.Join(lines, "\n\t"))
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "annex.toml")
	for _, c := range []struct {
		what, path string
		is         error
		says       string
	}{
		{"a file that is not there", path, os.ErrNotExist, ": there is no such file: annex config --example prints one to begin with"},
		{"a directory", dir, syscall.EISDIR, ": is a directory: name the file in it"},
		{"a file that cannot be read", "/proc/self/mem", syscall.EIO, ": cannot be read: input/output error"},
	} {
		_, err := config.Load(c.path)
		var invalid *config.Invalid
		if !errors.Is(err, c.is) || !errors.As(err, &invalid) || err.Error() != c.path+c.says {
			t.Errorf("%s: %v, want %s%s", c.what, err, c.path, c.says)
		}
	}
	if err := os.WriteFile(path, []byte("mode = \"manage\""), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load(path); err != nil || c.Mode != config.Manage {
		t.Errorf("read %v, %v", c.Mode, err)
	}
	if err := os.WriteFile(path, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Errorf("a file of more than 1 MiB: %v", err)
	}
}

func TestClass(t *testing.T) {
	c := parse(t, `
[[rule]]
class = "critical"
name = "booking-?"
[[rule]]
class = "ignored"
name = "noise-1"
image = "httpd"
[[rule]]
class = "elastic"
label = "tier=idle*"
[[rule]]
class = "elastic"
label = "swap"
[[rule]]
class = "elastic"
image = "registry.example.com/*:1.?"
[[rule]]
class = "elastic"
cgroup = "/idle/*"
[[rule]]
class = "critical"
cgroup = "/sys/fs/cgroup/memory/whole"
`)
	for _, k := range []struct {
		is   container.Container
		want annex.Class
	}{
		{container.Container{Name: "booking-1"}, annex.Critical},
		{container.Container{Name: "/booking-1"}, annex.Critical}, // as Docker's interface has names
		{container.Container{Name: "booking-12"}, annex.Ignored},
		{container.Container{Name: "booking-1", Labels: map[string]string{"tier": "idle"}}, annex.Critical}, // the first
		{container.Container{Name: "noise-1", Image: "httpd", Labels: map[string]string{"tier": "idle"}}, annex.Ignored},
		{container.Container{Name: "noise-1", Image: "nginx", Labels: map[string]string{"tier": "idle-2"}}, annex.Elastic},
		{container.Container{Labels: map[string]string{"tier": "busy"}}, annex.Ignored},
		{container.Container{Labels: map[string]string{"swap": ""}}, annex.Elastic},
		{container.Container{Image: "registry.example.com/a/b:1.2"}, annex.Elastic},
		{container.Container{Image: "registry.example.com/a/b:2.2"}, annex.Ignored},
		{container.Container{Cgroup: "/sys/fs/cgroup/memory/idle/a"}, annex.Elastic},
		{container.Container{Cgroup: "/sys/fs/cgroup/idle/a"}, annex.Elastic}, // version 2
		{container.Container{Cgroup: "/sys/fs/cgroup/x/idle/a"}, annex.Ignored},
		{container.Container{Cgroup: "/sys/fs/cgroup/memory/idle"}, annex.Ignored},
		{container.Container{Cgroup: "/sys/fs/cgroup/memory/whole"}, annex.Critical},
		{container.Container{}, annex.Ignored},
	} {
		if got := c.Class(k.is); got != k.want {
			t.Errorf("%+v is %s, want %s", k.is, got, k.want)
		}
	}
}

// By a name of his own choice no user gets a class. Where the operator says the place, it may
// be told from others there.
func TestClassOfWhatUsersName(t *testing.T) {
	const place = "/user.slice/user-1000.slice/user@1000.service/lxc.payload.booking-x"
	users := container.Container{
		Name: "booking-x", Image: "booking", Labels: map[string]string{"tier": "critical"},
		Cgroup: "/sys/fs/cgroup" + place, Unprivileged: true,
	}
	roots := users
	roots.Unprivileged = false
	for _, c := range []struct {
		rule  config.Rule
		users bool
	}{
		{config.Rule{Name: "booking-*"}, false},
		{config.Rule{Name: "*"}, false},
		{config.Rule{Label: "tier=critical"}, false},
		{config.Rule{Image: "booking"}, false},
		{config.Rule{Name: "booking-*", Label: "tier", Image: "*"}, false},
		{config.Rule{Cgroup: "/user.slice/user-1000.slice/*"}, true},
		{config.Rule{Cgroup: "/user.slice/user-1000.slice/*", Name: "booking-*"}, true},
	} {
		if got := c.rule.Fits(users); got != c.users || !c.rule.Fits(roots) {
			t.Errorf("%+v fits what a user named: %t, want %t; and what root did: %t", c.rule, got, c.users, c.rule.Fits(roots))
		}
	}
	// The next rule decides.
	c := config.Config{Rules: []config.Rule{{Class: annex.Critical, Name: "booking-*"}, {Class: annex.Elastic, Cgroup: "/user.slice/*"}}}
	if got := c.Class(users); got != annex.Elastic {
		t.Errorf("a user's is %s", got)
	}
}

func TestRestarts(t *testing.T) {
	old := config.Default()
	changed := old
	changed.Memory.Headroom = 1 << 30
	changed.Rules = []config.Rule{{Class: annex.Elastic, Name: "a"}}
	if got := config.Restarts(old, changed); len(got) != 0 {
		t.Errorf("headroom and rules take a restart: %v", got)
	}
	changed.Control.Socket, changed.State.Directory = "/run/other.sock", "/srv/annex"
	if got, want := config.Restarts(old, changed), []string{"control.socket", "state.directory"}; !slices.Equal(got, want) {
		t.Errorf("take a restart: %v, want %v", got, want)
	}
}

// What takes a restart stays as it was, and all the rest is as it is told.
func TestInForce(t *testing.T) {
	old := config.Default()
	changed := old
	changed.Memory.Headroom, changed.Scan.Least = 1<<30, 2*time.Second
	changed.Rules = []config.Rule{{Class: annex.Elastic, Name: "a"}}
	want := changed
	changed.Pressure.Critical, changed.Predictors.Record, changed.State.Directory = 0.5, false, "/srv/annex"
	changed.Activity.Dormancy, changed.Prefetch.Chunk = time.Second, 8
	got := config.InForce(old, changed)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left := config.Restarts(old, got); len(left) != 0 {
		t.Errorf("%v are as nobody started it", left)
	}
}

func TestDaily(t *testing.T) {
	for _, c := range []struct {
		tier config.Tier
		want int64
	}{
		{config.Tier{}, 0},
		{config.Tier{WriteDaily: 5}, 5},
		{config.Tier{Endurance: 3652500, Years: 10}, 1000},
		{config.Tier{Endurance: 3652500, Years: 10, WriteDaily: 999}, 999},
		{config.Tier{Endurance: 3652500, Years: 10, WriteDaily: 1001}, 1000},
	} {
		if got := c.tier.Daily(); got != c.want {
			t.Errorf("%+v may write %d a day, want %d", c.tier, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, n := range []int64{0, 1, 999, 1000, 1024, 1500, 64 << 20, 3 << 29, 600e12, 1<<62 + 1<<41} {
		text := config.FormatSize(n)
		if got, err := config.ParseSize(text); got != n || err != nil {
			t.Errorf("%d is written %s, which is read as %d, %v", n, text, got, err)
		}
	}
	for n, want := range map[int64]string{600e12: "600TB", 64 << 20: "64MiB", 1e9: "1GB", 3 << 29: "1536MiB", 1000: "1kB", 0: "0B"} {
		if got := config.FormatSize(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	if got, err := config.ParseSize("1.5GiB"); got != 3<<29 || err != nil {
		t.Errorf("1.5GiB is read as %d, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(config.Example())
	f.Add("[[rule]]\nclass = \"elastic\"\nname = \"a\"\n[rule.x]\ny = {z = [1, {a.b = 2}]}")
	f.Add("a.b.c = 1\n\"\" = 2\n[memory]\nheadroom = \"64MiB\"")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		var invalid *config.Invalid
		switch {
		case err == nil:
			again, err := config.Parse("again", []byte(c.String()))
			if err != nil {
				t.Fatalf("what was read is written as\n%s\nwhich is refused: %v", c, err)
			}
			if !reflect.DeepEqual(c, again) {
				t.Fatalf("read again it is another: %s", cmp.Diff(c, again))
			}
		case !errors.As(err, &invalid) || len(invalid.Problems) == 0:
			t.Fatalf("error %v, want an Invalid with its problems", err)
		default:
			count := strings.Count(text, "\n") + 1
			for _, p := range invalid.Problems {
				if p.Line > count {
					t.Errorf("line %d of %d", p.Line, count)
				}
			}
			for _, line := range invalid.Lines() {
				if strings.Contains(line, "\n") {
					t.Errorf("an error of several lines: %q", line)
				}
			}
		}
	})
}
