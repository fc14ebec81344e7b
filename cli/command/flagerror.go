package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/nearest"
)

// FlagError says in a user's words what a flag was given and what it takes, or of an unknown
// flag which one was meant. What a flag of our own says of its value stays as it is.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s; %s --help --all lists its flags", err, meant(cmd, unknown.GetSpecifiedName()), cmd.CommandPath())
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if wanted, ok := flagValues[invalid.GetFlag().Value.Type()]; ok {
			return fmt.Errorf("--%s %s: want %s", invalid.GetFlag().Name, invalid.GetValue(), wanted)
		}
	}
	return err
}

// meant names the flag that is most like one which a command lacks; empty where none is.
func meant(cmd *cobra.Command, name string) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	near := nearest.Of(known, 1, func(k string) (int, bool) {
		d := nearest.Edits(name, k)
		return d, d <= 1+len(name)/4 || len(name) > 2 && strings.HasPrefix(k, name)
	})
	if len(near) == 0 {
		return ""
	}
	return " (is --" + near[0] + " meant?)"
}

// flagValues say what flags of the library's own types take.
var flagValues = map[string]string{
	"bool":         "true or false",
	"duration":     "a time with its unit, such as 150ms, 10s or 5m",
	"float64":      "a number, such as 1.5",
	"int":          "a whole number, such as 5",
	"int64":        "a whole number, such as 5",
	"intSlice":     "whole numbers, such as 1,2,4",
	"uint":         "a whole number that is not negative, such as 5",
	"uint64":       "a whole number that is not negative, such as 5",
	"float64Slice": "numbers, such as 0.5,1,2",
}
