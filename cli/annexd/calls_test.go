package annexd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// allowedCalls are the numbers of the system calls that a SystemCallFilter allows. Without systemd's own
// word on its groups there are none, and nothing is held to them.
func allowedCalls(t *testing.T, filter string) (numbers []string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("system calls are not filtered here: needs systemd-analyze: apt-get install systemd")
		return nil
	}
	groups, err := exec.Command(analyze, "syscall-filter").Output()
	if err != nil {
		t.Fatal(err)
	}
	byGroup, group := map[string][]string{}, ""
	for line := range strings.Lines(string(groups)) {
		if strings.HasPrefix(line, "@") {
			group = strings.TrimSpace(line)
		} else if name := strings.TrimSpace(line); name != "" && name[0] != '#' {
			byGroup[group] = append(byGroup[group], name)
		}
	}
	var names []string
	var add func(name string)
	add = func(name string) {
		if name[0] != '@' {
			names = append(names, name)
			return
		}
		if len(byGroup[name]) == 0 {
			t.Errorf("SystemCallFilter: systemd has no group %s", name)
		}
		for _, one := range byGroup[name] {
			add(one)
		}
	}
	for _, name := range append(strings.Fields(filter), "@default") { // which systemd allows always
		add(name)
	}
	known := callNumbers(t)
	for _, name := range names {
		if n, is := known[name]; is { // or it is another machine's
			numbers = append(numbers, n)
		}
	}
	for _, name := range strings.Fields(filter) {
		if known[name] == "" && name[0] != '@' {
			t.Errorf("SystemCallFilter: there is no call %s", name)
		}
	}
	return numbers
}

// callNumbers are the kernel's numbers of system calls, as golang.org/x/sys has them.
func callNumbers(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s+= (\d+)`).FindAllStringSubmatch(string(text), -1) {
		all[strings.ToLower(m[1])] = m[2]
	}
	return all
}

// systemd takes the unit without a word, and finds no more exposed than is stated here.
func TestUnitIsValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze: apt-get install systemd")
	}
	text, err := os.ReadFile("../../contrib/annexd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "annexd.service")
	for _, program := range []string{"annexd", "annex"} {
		text = regexp.MustCompile(`(?m)^(Exec\w+=)\S+/`+program+` `).ReplaceAll(text, []byte("${1}/bin/true "))
	}
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	const most = "43" // tenths
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+most, unit).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}
