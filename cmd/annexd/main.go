// Command annexd keeps the memory extension running on a host.
package main

import (
	"os"

	"tare/annex/guard"
	"tare/cli/annexd"
)

func main() {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	os.Exit(annexd.Main(os.Args))
}
