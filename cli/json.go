package cli

import (
	"io"

	"tare/cli/command"
	"tare/kernel/file"
)

// emitJSON writes v to a file, or to standard output for "-".
func (a *app) emitJSON(path string, v any) error {
	if path == "-" {
		return command.WriteJSON(a.out, v)
	}
	return file.Replace(path, func(w io.Writer) error { return command.WriteJSON(w, v) })
}
