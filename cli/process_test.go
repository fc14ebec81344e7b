package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tare/workload"
)

func TestProcessFlags(t *testing.T) {
	t.Setenv("TARE_TEST_HERE", "its value")
	for _, test := range []struct {
		line    string // parted by |
		command []string
		want    workload.Program
		named   string
		refused string
	}{
		{line: "", want: workload.Program{}},
		{line: "", command: []string{"a", "b"}, want: workload.Program{Command: []string{"a", "b"}}, named: "a COMMAND after --"},
		{line: "--entrypoint|/e", command: []string{"a"}, want: workload.Program{Args: []string{"/e", "a"}}, named: "a COMMAND after --"},
		{line: "--entrypoint|/e", want: workload.Program{Args: []string{"/e"}}, named: "--entrypoint"},
		{line: "--entrypoint=", command: []string{"a"}, want: workload.Program{Args: []string{"a"}}, named: "a COMMAND after --"},
		{line: "--entrypoint=", named: "--entrypoint", refused: "give a COMMAND after --"},
		{line: "--workdir|/w|--user|u:g", want: workload.Program{Dir: "/w", User: "u:g"}, named: "--workdir"},
		{line: "--env|A=1,2|--env|B=|--env|TARE_TEST_HERE|--env|TARE_TEST_ABSENT", want: workload.Program{Env: []string{"A=1,2", "B=", "TARE_TEST_HERE=its value", "TARE_TEST_ABSENT"}, Unrecorded: []string{"TARE_TEST_HERE"}}, named: "--env"},
		{line: "--env|=x", named: "--env", refused: `--env "=x": want NAME=VALUE`},
		{line: "--env=", named: "--env", refused: `--env "": want NAME=VALUE`},
		{line: "--workdir|w", named: "--workdir", refused: "absolute path"},
		{line: "--workdir=", named: "--workdir", refused: "absolute path"},
		{line: "--user=", named: "--user", refused: "USER or USER:GROUP"},
		{line: "--user|:", named: "--user", refused: "USER or USER:GROUP"},
		{line: "--user|a:", named: "--user", refused: "USER or USER:GROUP"},
		{line: "--user|-1", named: "--user", refused: "USER or USER:GROUP"},
		{line: "--user|no body", named: "--user", refused: "USER or USER:GROUP"},
		{line: "--user|a:b:c", named: "--user", refused: "USER or USER:GROUP"},
	} {
		var p processFlags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		p.register(flags)
		if err := flags.Parse(strings.FieldsFunc(test.line, func(r rune) bool { return r == '|' })); err != nil {
			t.Fatal(err)
		}
		got, named, err := p.program(test.command)
		if named != test.named {
			t.Errorf("%s: names %q, want %q", test.line, named, test.named)
		}
		if test.refused != "" {
			if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), test.refused) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want one line with %q", test.line, err, test.refused)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Args, test.want.Args) || !slices.Equal(got.Command, test.want.Command) || !slices.Equal(got.Env, test.want.Env) || !slices.Equal(got.Unrecorded, test.want.Unrecorded) || got.Dir != test.want.Dir || got.User != test.want.User {
			t.Errorf("%s: %+v, %v; want %+v", test.line, got, err, test.want)
		}
	}
}
