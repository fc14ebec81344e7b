package cli

import (
	"github.com/spf13/cobra"

	"tare/study/io"
	"tare/study/io/place"
)

func (a *app) io() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "io",
		Short: "Find what a container costs memory bandwidth, storage and Redis",
		Long: `Io measures S5's programs on bare metal and in containers, over where their data lie:
memory bandwidth by MPI processes (stream), checkpoints written and read back
(haccio), and Redis over storage and network (redis). What touches no storage must
not differ between a volume and a bind mount, which checks the procedure.`,
		Example: `  tare io stream --quick
  tare io haccio
  tare io redis`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("unknown study %q: tare io takes stream, haccio or redis", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("which? tare io takes stream, haccio or redis")
		},
	}
	for _, study := range ioStudies() {
		sub, s := study()
		sub.RunE = func(cmd *cobra.Command, args []string) error { return a.runSub(cmd, io.Name, s, args) }
		cmd.AddCommand(sub)
	}
	return cmd
}

// ioStudies make the commands and the places of their flags. Each is in a file of
// its own: iostream.go, iohaccio.go, ioredis.go.
func ioStudies() []subStudied {
	return []subStudied{ioStream, ioHaccio, ioRedis}
}

// ioHost is what a design of these studies must know of the machine.
func ioHost(on studyHost) place.Host {
	return place.Host{Host: on.Host, Server: on.server, Load: on.load}
}
