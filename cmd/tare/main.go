// Command tare weighs what a container costs the program inside it.
package main

import (
	"os"

	"tare/cli"
	"tare/platform/bare"
	"tare/platform/vm/guest"
)

func main() {
	guest.Main()
	bare.Reexec()
	os.Exit(cli.Main(os.Args))
}
