package annex

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal is the terminal behind a stream, if there is one.
func terminal(w any) (f *os.File, fd int, ok bool) {
	f, ok = w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil, 0, false
	}
	return f, int(f.Fd()), true
}

// sizeOf is the size of the terminal behind a writer, and 80 by 24 elsewhere.
func sizeOf(w io.Writer) (width, height int) {
	if _, fd, ok := terminal(w); ok {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}
