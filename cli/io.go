package cli

import (
	"github.com/spf13/cobra"

	"tare/study/io"
	"tare/study/io/place"
)

func (a *app) io() *cobra.Command {
	cmd := grouped(&cobra.Command{
		Use:   "io",
		Short: "Find what a container costs memory bandwidth, storage and Redis",
		Long: `Io measures three programs of S5 (published study of input and output) on bare metal
and in containers, for each place of their data:

  stream  memory bandwidth of MPI processes
  haccio  checkpoints, written and read back
  redis   Redis over storage and network

A program that touches no storage must not differ between a volume and a bind mount.
That checks the method.`,
		Example: `  tare io stream --quick
  tare io haccio
  tare io redis`,
	}, "study", "stream, haccio or redis")
	for _, study := range ioStudies {
		cmd.AddCommand(a.study(io.Name, study))
	}
	return cmd
}

// ioStudies make the commands and the places of their flags. Each is in a file of
// its own: iostream.go, iohaccio.go, ioredis.go.
var ioStudies = []subStudied{ioStream, ioHaccio, ioRedis}

// ioHost is what a design of these studies requires of the machine.
func ioHost(on studyHost) place.Host {
	return place.Host{Host: on.Host, Server: on.server, Load: on.load}
}
