package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/cli/command"
	"tare/lab"
)

func run(t *testing.T, line ...string) (code int, said string) {
	t.Helper()
	args := append([]string{"kubectl-tare"}, line...)
	var errOut bytes.Buffer
	code = command.Run(t.Context(), Command(args), args, io.Discard, &errOut, exitCode)
	return code, errOut.String()
}

// noDigest is of no image.
var noDigest = strings.Repeat("0", 64)

// What is wrong with a command line or a cluster is one clear line, with its exit code.
func TestOneClearLine(t *testing.T) {
	t.Setenv("TARE_NODE_IMAGE", "")
	t.Setenv("TARE_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	image := []string{"--node-image", "tare@sha256:" + noDigest, "--kubeconfig"}
	for _, c := range []struct {
		line []string
		code int
		want string
	}{
		{[]string{"weigh", "redis"}, command.Usage, "--nodes pool=bench"},
		{[]string{"weigh", "redis", "--nodes", " "}, command.Usage, "--nodes pool=bench"},
		{[]string{"weigh", "redis", "--nodes", "a=b"}, command.Usage, "make image"},
		{[]string{"weigh", "redis", "--nodes", "a=b", "--node-image", "r/tare@sha256:..."}, command.Usage, "as make image prints it"},
		{append([]string{"weigh", "redis", "--nodes", "a=b"}, append(image, "/none")...), command.Host, "no cluster answers: stat /none"},
		{[]string{"resume", "weigh-1"}, command.Host, "no cluster answers"},
		{[]string{"resume"}, command.Usage, "kubectl tare resume"},
		{[]string{"diagnose", "pod/web-1"}, command.Usage, "make image"},
		{append([]string{"diagnose", "web-1"}, append(image, "/none")...), command.Usage, "web-1: want pod/NAME, deployment/NAME"},
		{append([]string{"diagnose", "job/web"}, append(image, "/none")...), command.Usage, "job/web: want pod/NAME"},
		{append([]string{"diagnose", "pod/"}, append(image, "/none")...), command.Usage, "pod/: want pod/NAME"},
		{append([]string{"diagnose", "pod/a", "--node", "a"}, append(image, "/none")...), command.Usage, "--node diagnoses all pods"},
		{append([]string{"diagnose", "deploy/web"}, append(image, "/none")...), command.Host, "no cluster answers: stat /none"},
		{append([]string{"diagnose", "pod/a", "pod/b"}, append(image, "/none")...), command.Usage, "one TYPE/NAME, not 2"},
		{[]string{"no-study"}, command.Usage, "unknown command"},
		{[]string{"rights"}, command.Usage, "--group"},
		{[]string{"node", "export"}, command.Usage, "--study"},
	} {
		if code, said := run(t, c.line...); code != c.code || !strings.Contains(said, c.want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%q: code %d, want %d: %q, want a line with %q", c.line, code, c.code, said, c.want)
		}
	}
}

func TestACallToNobody(t *testing.T) {
	t.Setenv("TARE_HOME", t.TempDir())
	config := filepath.Join(t.TempDir(), "config")
	if err := writeConfig(config, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	code, said := run(t, "weigh", "redis", "--nodes", "a=b", "--node-image", "tare@sha256:"+noDigest, "--kubeconfig", config)
	if code != command.Host || !strings.Contains(said, "no cluster answers") || !strings.Contains(said, "127.0.0.1:1") || strings.Count(said, "\n") != 1 {
		t.Errorf("code %d: %s", code, said)
	}
}

// The examples of the help are of kubectl tare, and have commands and flags that exist.
func TestExamplesParse(t *testing.T) {
	seen := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			typed, ok := strings.CutPrefix(line, "  kubectl tare ")
			if !ok {
				t.Errorf("%s: %q is not of kubectl tare", c.CommandPath(), line)
				continue
			}
			typed, _, _ = strings.Cut(typed, " | ")
			found, rest, err := Command(nil).Find(strings.Fields(typed))
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err != nil || !found.HasParent() {
				t.Errorf("%s: %v", line, err)
			}
			seen++
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden && strings.Contains(c.Long+c.Example, "--"+f.Name) {
				t.Errorf("%s: the help names --%s, which is refused", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(Command(nil))
	if seen < 20 {
		t.Errorf("%d examples were read", seen)
	}
}

// kubectl_complete-tare has kubectl complete what this answers.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		typed []string
		want  string
	}{
		{[]string{"we"}, "weigh\t"},
		{[]string{"rights", "--gr"}, "--group\t"},
		{[]string{"weigh", "--node-im"}, "--node-image\t"},
	} {
		args := append([]string{"kubectl-tare", "__complete"}, c.typed...)
		var out bytes.Buffer
		if code := command.Run(t.Context(), Command(args), args, &out, io.Discard, exitCode); code != 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: code %d, %q, want %q", c.typed, code, &out, c.want)
		}
	}
}

// A node whose host another tare measures on waits for it, and says so once.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, said := 0, 0
		err := alone(t.Context(), func() error {
			if tries++; tries < 5 {
				return fmt.Errorf("weigh: %w", &lab.Busy{Holder: "pid 1"})
			}
			return errors.New("measured")
		}, func(error) { said++ })
		if tries != 5 || said != 1 || err == nil || err.Error() != "measured" {
			t.Errorf("%d tries, said %d times, %v", tries, said, err)
		}
	})
}

func writeConfig(path, server string) error {
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
	return os.WriteFile(path, []byte(text), 0o600)
}
