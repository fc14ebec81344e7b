package cli

import (
	"github.com/spf13/cobra"

	"tare/cli/command"
)

// flagError says in a user's words what a flag was given and what it takes.
func flagError(_ *cobra.Command, err error) error {
	return &codedError{exitUsage, command.FlagError(err)}
}
