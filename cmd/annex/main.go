// Command annex tells what annexd does with containers' memory, and tells annexd what to do.
package main

import (
	"os"

	"tare/cli/annex"
)

func main() {
	os.Exit(annex.Main(os.Args))
}
