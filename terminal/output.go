package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"
)

// Output is a stream that a command prints to. It escapes all that is printed but lines and
// tabs. It keeps the first error of printing, which a command need not look at: one whose
// output did not all arrive fails. It may be used by several goroutines.
type Output struct {
	to io.Writer

	mu   sync.Mutex
	part []byte // of a character that the next write goes on with
	err  error
}

// To gives the output to a stream.
func To(w io.Writer) *Output { return &Output{to: w} }

// Write prints. Its error says that the output is not complete, so that it says the same from
// a command that returns it as from one that does not look at it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := append(o.part, p...)
	whole := len(text)
	for i := whole - 1; i >= max(0, whole-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				whole = i
			}
			break
		}
	}
	o.part = text[whole:]
	if err := o.print([]byte(escape(string(text[:whole]), "\n\t"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *Output) print(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := o.to.Write(p)
	if err != nil {
		err = fmt.Errorf("the output is not complete: %w", err)
	}
	if o.err == nil {
		o.err = err
	}
	return err
}

// End prints what is left, and tells why not all was printed. That its reader has left is no
// failure.
func (o *Output) End() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.print([]byte(Escape(string(o.part))))
	o.part = nil
	if o.err == nil || errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return o.err
}

// exact prints without escaping.
type exact struct{ o *Output }

func (e exact) Write(p []byte) (int, error) {
	e.o.mu.Lock()
	defer e.o.mu.Unlock()
	if err := e.o.print(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Document is where a document goes that has its own format, such as HTML and CSV: a program
// reads it, and gets its bytes as they are. A terminal gets them escaped.
func Document(w io.Writer) io.Writer {
	if o, is := w.(*Output); is {
		if _, seen := Behind(o); !seen {
			return exact{o}
		}
	}
	return w
}

// Behind gives the descriptor of the terminal behind a stream, if there is one that
// understands our sequences.
func Behind(w any) (fd int, ok bool) {
	if o, is := w.(*Output); is {
		w = o.to
	}
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}
