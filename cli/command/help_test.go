package command_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tare/cli/command"
)

// tool is a program with a command that marks one of its two flags.
func tool() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "A tool", RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.PersistentFlags().String("home", "", "where")
	root.AddGroup(&cobra.Group{ID: "g", Title: "Group:"})
	sub := &cobra.Command{Use: "do", Short: "Do it", Long: "How it is done.", Example: "  tool do --often 2", GroupID: "g",
		RunE: func(*cobra.Command, []string) error { return nil }}
	sub.Flags().Int("often", 1, "how often")
	sub.Flags().String("rare", "", "what few need")
	command.Leading(sub, "often")
	plain := &cobra.Command{Use: "plain", Short: "Plain", Long: "Long.", RunE: func(*cobra.Command, []string) error { return nil }}
	plain.Flags().Bool("all", false, "its own flag")
	look := &cobra.Command{Use: "look NAME... | --all", RunE: func(*cobra.Command, []string) error { return nil }}
	look.AddCommand(&cobra.Command{Use: "explain ID", RunE: func(*cobra.Command, []string) error { return nil }})
	root.AddCommand(sub, plain, look)
	return root
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args      string
		has, lack []string
	}{
		{"tool do --help", []string{"Do it\n", "Examples:\n  tool do --often 2", "--often N", "All of 2 flags, and how it works:\n  tool do --help --all"}, []string{"--rare", "How it is done"}},
		{"tool do --help --all", []string{"How it is done.", "--often N", "--rare TEXT"}, []string{"All of"}},
		{"tool --home x help do --all", []string{"How it is done.", "--rare TEXT"}, nil},
		{"tool help do --all", []string{"How it is done.", "--rare TEXT"}, nil},
		{"tool plain -h", []string{"Long.", "--all"}, []string{"All of"}},
		{"tool look --help", []string{"  tool look NAME... | --all [flags]\n  tool look COMMAND\n"}, nil},
		{"tool --help", []string{"Group:\n  do", "More commands:", "plain"}, nil},
	} {
		var out, errOut bytes.Buffer
		code := command.Run(t.Context(), tool(), strings.Fields(c.args), &out, &errOut, func(error) int { return command.Failure })
		if code != command.Success || errOut.Len() > 0 {
			t.Errorf("%s: code %d, %s", c.args, code, errOut.String())
		}
		for _, text := range c.has {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s lacks %q:\n%s", c.args, text, out.String())
			}
		}
		for _, text := range c.lack {
			if strings.Contains(out.String(), text) {
				t.Errorf("%s has %q:\n%s", c.args, text, out.String())
			}
		}
	}
	var out, errOut bytes.Buffer
	if code := command.Run(t.Context(), tool(), []string{"tool", "do", "--all"}, &out, &errOut, func(error) int { return command.Failure }); code != command.Usage {
		t.Errorf("--all without --help: code %d", code)
	}
}
