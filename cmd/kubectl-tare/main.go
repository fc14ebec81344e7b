// Command kubectl-tare has studies measured on nodes of a Kubernetes cluster. It is a plugin of kubectl, and what
// the nodes' pods run.
package main

import (
	"os"

	"tare/cli/kubectl"
	"tare/platform/bare"
)

func main() {
	bare.Reexec()
	os.Exit(kubectl.Main(os.Args))
}
