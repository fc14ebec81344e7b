package annex

import (
	"io"

	"tare/terminal"
)

// unbounded is wider than any line: what is no terminal is read by programs, which want
// names whole.
const unbounded = 1 << 20

// widthOf is how wide what is printed once may be.
func widthOf(w io.Writer) int {
	width, _, live := terminal.Size(w)
	if !live {
		return unbounded
	}
	return width
}
