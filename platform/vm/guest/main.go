package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Main takes over this program where it is the first process of a machine that boots
// by tare's order, or the agent which that has started, and never returns then. It is
// to be called first thing in main.
func Main() {
	if len(os.Args) == 0 {
		return
	}
	switch {
	case os.Args[0] == agentName && os.Getppid() == 1:
		os.Exit(serve())
	case os.Args[0] == Program && os.Getpid() == 1:
		first()
	}
}

// console is where a machine says what its end was. It has no other place for it.
func console() io.Writer {
	f, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		return io.Discard
	}
	return f
}

// complain writes a line to the console, which may be in the middle of one.
func complain(err error) {
	_, _ = fmt.Fprintf(console(), "\r\ntare: %s\r\n", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// errEnded is the reason of a machine that ends as it should.
var errEnded = errors.New("the agent has ended")
