package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"tare/cli/command"
)

var errOwn = errors.New("the disk\nis\tfull")

func root(fails error) *cobra.Command {
	root := &cobra.Command{Use: "weigh", RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	sub := &cobra.Command{Use: "now THING", Args: command.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return fails }}
	sub.Flags().Int("times", 1, "how often")
	root.AddCommand(sub)
	return root
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args  string
		fails error
		code  int
		says  string
	}{
		{"weigh now x", nil, command.Success, ""},
		{"weigh now x", errOwn, 42, "weigh: the disk is full\n"},
		{"weigh now x", fmt.Errorf("weigh it: %w", &command.Coded{Code: command.Host, Err: errOwn}), command.Host, "weigh: weigh it: the disk is full\n"},
		{"weigh now x", command.UsageError("no %s", "way"), command.Usage, "weigh: no way\n"},
		{"weigh now", nil, command.Usage, "weigh: weigh now takes 1 argument, not 0: weigh now THING [flags]\n"},
		{"weigh now x --times often", nil, command.Usage, "weigh: --times often: want a whole number, such as 5\n"},
		{"weigh now x --tims 1", nil, command.Usage, "weigh: unknown flag: --tims (is --times meant?); weigh now --help --all lists its flags\n"},
		{"weigh nwo", nil, command.Usage, "weigh: unknown command \"nwo\" for \"weigh\""},
	} {
		var out, errOut bytes.Buffer
		code := command.Run(t.Context(), root(c.fails), strings.Fields(c.args), &out, &errOut, func(err error) int {
			if errors.Is(err, errOwn) {
				return 42
			}
			return command.Failure
		})
		if code != c.code || !strings.HasPrefix(errOut.String(), c.says) || (c.says == "") != (errOut.Len() == 0) || out.Len() > 0 {
			t.Errorf("%s, failing with %v: code %d, %q, %q; want %d, %q", c.args, c.fails, code, out.String(), errOut.String(), c.code, c.says)
		}
	}
}

// broken is an output that takes nothing.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// A command whose output does not arrive fails by the same words, whether it looks at the errors
// of printing or not; that its reader has left is no failure of one that does not.
func TestOutputIsIncomplete(t *testing.T) {
	const lost = "weigh: the output is not complete: no space left on device\n"
	unseen := func(cmd *cobra.Command, _ []string) error { fmt.Fprintln(cmd.OutOrStdout(), "a line"); return nil }
	seen := func(cmd *cobra.Command, _ []string) error { return command.WriteJSON(cmd.OutOrStdout(), "a line") }
	for _, c := range []struct {
		err   error
		print func(*cobra.Command, []string) error
		code  int
		says  string
	}{
		{syscall.ENOSPC, unseen, command.Failure, lost},
		{syscall.ENOSPC, seen, command.Failure, lost},
		{syscall.EPIPE, unseen, command.Success, ""},
	} {
		var errOut bytes.Buffer
		root := &cobra.Command{Use: "weigh", RunE: c.print}
		code := command.Run(t.Context(), root, []string{"weigh"}, broken{c.err}, &errOut, func(error) int { return command.Failure })
		if code != c.code || errOut.String() != c.says {
			t.Errorf("%v: code %d, %q; want %d, %q", c.err, code, errOut.String(), c.code, c.says)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if code := command.Run(t.Context(), root(nil), []string{"weigh", "--version"}, &out, &out, nil); code != 0 || out.String() != "weigh "+command.Version()+"\n" {
		t.Errorf("code %d, %q", code, out.String())
	}
}
