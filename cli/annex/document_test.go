package annex

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tare/annex/config"
	"tare/annex/control"
	"tare/cli/command"
)

var update = flag.Bool("update", false, "write the generated parts of docs/annex/configuration.md anew")

// The pages that are held against the code.
const (
	configurationPage = "../../docs/annex/configuration.md"
	operatingPage     = "../../docs/annex/operating.md"
	quickStartPage    = "../../docs/annex/quick-start.md"
)

// generated are the parts of the document that come from the code.
func generated(t *testing.T) map[string]string {
	t.Helper()
	var status bytes.Buffer
	if err := command.WriteJSON(&status, sample()); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"keys":    config.Reference(),
		"metrics": control.MetricsReference(),
		"status":  "```json\n" + status.String() + "```\n",
	}
}

var part = regexp.MustCompile(`(?s)(<!-- generated: ([a-z]+) -->\n).*?(<!-- end -->\n)`)

// The document's lists are the code's: go test ./cli/annex -run Document -update
func TestDocumentIsCurrent(t *testing.T) {
	old, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	parts := generated(t)
	current := part.ReplaceAllStringFunc(string(old), func(whole string) string {
		m := part.FindStringSubmatch(whole)
		text, ok := parts[m[2]]
		if !ok {
			t.Errorf("%s has a part %q that nothing generates", configurationPage, m[2])
		}
		delete(parts, m[2])
		return m[1] + "\n" + text + "\n" + m[3]
	})
	for name := range parts {
		t.Errorf("%s has no part %q", configurationPage, name)
	}
	if current == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./cli/annex -run Document -update", configurationPage)
	}
	if err := os.WriteFile(configurationPage, []byte(current), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every command that the document names is there, and every one that is there is named.
func TestDocumentNamesCommands(t *testing.T) {
	text, err := os.ReadFile(operatingPage)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, c := range root().Commands() {
		if !c.Hidden {
			there[c.Name()] = true
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)(?:`|^ +|&& )annex ([a-z]+)").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
		if !there[m[1]] {
			t.Errorf("%s names annex %s, which there is not", operatingPage, m[1])
		}
	}
	for _, name := range []string{"status", "top", "explain", "drain", "off", "reload", "config"} {
		if !named[name] {
			t.Errorf("%s does not name annex %s", operatingPage, name)
		}
	}
}

// The section on commands names the flags by which they are asked for something else.
func TestDocumentNamesFlags(t *testing.T) {
	text, err := os.ReadFile(operatingPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Commands\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, name := range []string{"status", "top", "explain", "drain", "off", "reload", "config"} {
		c, _, err := root().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(section, "--"+f.Name) {
				t.Errorf("%s does not name --%s of annex %s", operatingPage, f.Name, name)
			}
		})
	}
	if !strings.Contains(section, "`--"+socketFlag+" ") {
		t.Errorf("%s does not name --%s", operatingPage, socketFlag)
	}
}

// The configuration that the quick start shows is one.
func TestDocumentsConfiguration(t *testing.T) {
	text, err := os.ReadFile(quickStartPage)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```toml\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s shows no configuration", quickStartPage)
	}
	if c, err := config.Parse("annex.toml", m[1]); err != nil || len(c.Rules) == 0 {
		t.Errorf("%d rules, %v", len(c.Rules), err)
	}
}

const unit = "../../contrib/annexd.service"

// systemd finds no fault with the unit, the programs' places aside.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on PATH (apt-get install systemd)")
	}
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	moved := regexp.MustCompile(`(?m)^(Exec\w+=)\S+`).ReplaceAllString(string(text), "${1}"+program)
	if strings.Count(moved, program) != 3 {
		t.Fatalf("%s starts, reloads and recovers by other lines than this test knows", unit)
	}
	verify := func(text string) string {
		path := filepath.Join(t.TempDir(), "annexd.service")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		return string(out)
	}
	// What other units of the host are wrong about is not ours.
	complaints := func(said string) (ours []string) {
		for line := range strings.Lines(said) {
			if strings.Contains(line, "annexd.service") {
				ours = append(ours, line)
			}
		}
		return ours
	}
	if broken := complaints(verify(moved + "\n[Service]\nProtectSytem=strict\n")); len(broken) == 0 {
		t.Skip("systemd-analyze verify finds no fault with a mistyped key: it tells nothing here")
	}
	if wrong := complaints(verify(moved)); len(wrong) > 0 {
		t.Errorf("systemd says\n%s", strings.Join(wrong, ""))
	}
}

// What the unit gives the daemon is where the configuration looks by default.
func TestUnitMakesTheDefaultDirectories(t *testing.T) {
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	for key, path := range map[string]string{
		"ConfigurationDirectory": filepath.Dir(config.Path), "RuntimeDirectory": filepath.Dir(c.Control.Socket),
		"StateDirectory": c.State.Directory, "LogsDirectory": filepath.Dir(c.Log.File),
	} {
		above := map[string]string{"ConfigurationDirectory": "/etc/", "RuntimeDirectory": "/run/", "StateDirectory": "/var/lib/", "LogsDirectory": "/var/log/"}[key]
		m := regexp.MustCompile(`(?m)^` + key + `=(\S+)$`).FindSubmatch(text)
		if m == nil || above+string(m[1]) != path {
			t.Errorf("the unit has %s=%s, and the daemon uses %s", key, m, path)
		}
	}
	if !bytes.Contains(text, []byte("annexd --config "+config.Path+"\n")) {
		t.Errorf("the unit does not start with %s", config.Path)
	}
}

// The example of the document is a status.
func TestSampleIsAStatus(t *testing.T) {
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	c := control.Dial(serving(t, &fake{status: sample()}))
	defer c.Close()
	got, err := c.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(got); err != nil || !bytes.Equal(again, text) {
		t.Errorf("it arrives as\n%s\nfrom\n%s", again, text)
	}
}
