package command

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// FlagError says in a user's words what a flag was given and what it takes. What a flag of
// our own says of its value stays as it is.
func FlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if wanted, ok := flagValues[invalid.GetFlag().Value.Type()]; ok {
			return fmt.Errorf("--%s %s: want %s", invalid.GetFlag().Name, invalid.GetValue(), wanted)
		}
	}
	return err
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
