// Command annexd keeps the memory extension running on a host.
package main

import (
	"os"
	"runtime/debug"

	"tare/annex/guard"
	"tare/cli/annexd"
)

func main() {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	// It dies by a signal, and not with an exit status that would keep systemd from starting it again.
	debug.SetTraceback("crash")
	os.Exit(annexd.Main(os.Args))
}
