package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tare/cli"
	"tare/cli/command"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/lab"
	"tare/nodes"
	"tare/platform"
	"tare/record"
	"tare/terminal"
)

// node are the commands that the pods run.
func node(stateDir func() (string, error)) *cobra.Command {
	var of record.Part
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "What the pods on nodes run",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.UsageError("which? kubectl-tare node takes run, keep, export, acknowledge or diagnose")
		},
	}
	cmd.PersistentFlags().StringVar(&of.Study, "study", "", "id of the study")
	cmd.PersistentFlags().StringVar(&of.Node, "node", "", "name of the node")
	type run = func(cmd *cobra.Command, args []string) error
	add := func(use, short string, args cobra.PositionalArgs, run run) *cobra.Command {
		asked := &cobra.Command{Use: use, Short: short, Args: args}
		asked.RunE = func(cmd *cobra.Command, args []string) error {
			if of.Study == "" || of.Node == "" {
				return command.UsageError("node %s requires --study and --node", cmd.Name())
			}
			return run(cmd, args)
		}
		cmd.AddCommand(asked)
		return asked
	}
	kept := func(do func(*record.Store) error) error {
		dir, err := stateDir()
		if err != nil {
			return err
		}
		store, err := record.Open(cli.StorePath(dir))
		if err != nil {
			return err
		}
		return errors.Join(do(store), store.Close())
	}
	var services string
	var hasFiles bool
	measuring := add("run -- STUDY...", "Measure this node's part of a study", cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			sent, err := sentHere(hasFiles, services)
			if err != nil {
				return err
			}
			return measure(cmd, of, sent, args)
		})
	measuring.Flags().BoolVar(&hasFiles, "files", false, "variable "+nodes.FilesVariable+" has the texts of workloads' files")
	measuring.Flags().StringVar(&services, "services", "", "Services for pods of this node, as `JSON`")
	add("keep", "Wait until this node's run was acknowledged", command.ExactArgs(0),
		func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			return nodes.Keep(cmd.Context(), cli.StorePath(dir), of)
		})
	add("export", "Write this node's run to one who fetches it", command.ExactArgs(0),
		func(cmd *cobra.Command, _ []string) error {
			return kept(func(store *record.Store) error {
				return nodes.Export(cmd.Context(), store, of, terminal.Document(cmd.OutOrStdout()))
			})
		})
	add("acknowledge", "Remove this node's run, which was fetched", command.ExactArgs(0),
		func(*cobra.Command, []string) error {
			return kept(func(store *record.Store) error { return nodes.Acknowledge(store, of) })
		})
	cmd.AddCommand(diagnoseHere(), &cobra.Command{
		Use: "copy FILE", Short: "Copy this program, for images that have none of their own", Args: command.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return copyProgram(args[0]) },
	}, &cobra.Command{
		Use: "pulled", Short: "Do nothing: the kubelet has pulled the image", Args: command.ExactArgs(0),
		RunE: func(*cobra.Command, []string) error { return nil },
	})
	return cmd
}

func copyProgram(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// sentHere is what the pod was sent. Programs that tare starts do without the variable.
func sentHere(hasFiles bool, services string) (sent cli.Sent, err error) {
	if hasFiles {
		if err := json.Unmarshal([]byte(os.Getenv(nodes.FilesVariable)), &sent.Files); err != nil {
			return sent, fmt.Errorf("variable %s: %w", nodes.FilesVariable, err)
		}
		if err := os.Unsetenv(nodes.FilesVariable); err != nil {
			return sent, err
		}
	}
	if services != "" {
		if err := json.Unmarshal([]byte(services), &sent.Services); err != nil {
			return sent, command.UsageError("--services: %v", err)
		}
	}
	return sent, nil
}

// measure measures a node's part as tare on the node itself would: in the host's namespaces, and in
// none of the pod's control groups.
func measure(cmd *cobra.Command, of record.Part, sent cli.Sent, args []string) error {
	if err := process.EnterHost(); err != nil {
		return err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	if err := layout.At("/").Add(os.Getpid()); err != nil {
		return err
	}
	// Lowering it takes a capability that the pod does without: all programs have the pod's.
	own, err := procfs.Host.Process(os.Getpid()).OOMScoreAdj()
	if err != nil {
		return err
	}
	platform.Surroundings.OOMScore = own
	return alone(cmd.Context(), func() error {
		return cli.MeasurePart(cmd.Context(), args, sent, of, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}, func(busy error) { terminal.Fprintf(cmd.ErrOrStderr(), "waiting: %s\n", busy) })
}

// alone measures while no other tare does so on the host, and waits for that. It says so once.
func alone(ctx context.Context, measure func() error, say func(error)) error {
	for said := false; ; {
		err := measure()
		busy := new(lab.Busy)
		if !errors.As(err, &busy) {
			return err
		}
		if !said {
			said = true
			say(busy)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		for lab.Measuring(lab.LockPath) && ctx.Err() == nil { // to design the study again would disturb who measures
			time.Sleep(time.Second)
		}
	}
}
