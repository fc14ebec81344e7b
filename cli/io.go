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
		Long: `Io measures S5's programs on bare metal and in containers, over where their data lie:
memory bandwidth by MPI processes (stream), checkpoints written and read back
(haccio), and Redis over storage and network (redis). What touches no storage must
not differ between a volume and a bind mount, which checks the procedure.`,
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

// ioHost is what a design of these studies must know of the machine.
func ioHost(on studyHost) place.Host {
	return place.Host{Host: on.Host, Server: on.server, Load: on.load}
}
