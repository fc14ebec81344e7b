package annex

import (
	"io"
	"os"

	"golang.org/x/term"

	"tare/cli/command"
)

// terminal is the terminal behind a stream, if there is one.
func terminal(w any) (f *os.File, fd int, ok bool) {
	if out, is := w.(*command.Output); is {
		f, ok = out.File()
	} else {
		f, ok = w.(*os.File)
	}
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil, 0, false
	}
	return f, int(f.Fd()), true
}

// unbounded is wider than any line: what is no terminal is read by programs, which want
// names whole.
const unbounded = 1 << 20

// widthOf is how wide what is printed once may be.
func widthOf(w io.Writer) int {
	if _, _, ok := terminal(w); !ok {
		return unbounded
	}
	width, _ := sizeOf(w)
	return width
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
