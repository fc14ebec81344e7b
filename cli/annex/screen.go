package annex

import (
	"io"

	"golang.org/x/term"

	"tare/terminal"
)

// unbounded is wider than any line: what is no terminal is read by programs, which want
// names whole.
const unbounded = 1 << 20

// widthOf is how wide what is printed once may be.
func widthOf(w io.Writer) int {
	width, _, live := sizeOf(w)
	if !live {
		return unbounded
	}
	return width
}

// sizeOf is the size of the terminal behind a writer. One that does not say its size has 80
// by 24.
func sizeOf(w io.Writer) (width, height int, live bool) {
	fd, live := terminal.Behind(w)
	if live {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
			return width, height, true
		}
	}
	return 80, 24, live
}
