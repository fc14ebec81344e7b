package cli

import (
	"encoding/json"
	"io"
)

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// emitJSON writes v to a file, or to standard output for "-".
func (a *app) emitJSON(path string, v any) error {
	if path == "-" {
		return writeJSON(a.out, v)
	}
	return writeFile(path, func(w io.Writer) error { return writeJSON(w, v) })
}
