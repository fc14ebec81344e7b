package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/cli"
	"tare/cli/command"
	"tare/kernel/process"
	"tare/nodes"
	"tare/record"
	"tare/report"
	"tare/study/diagnose"
	"tare/terminal"
)

// diagnose is the command that diagnoses pods on their nodes.
func (s *session) diagnose(args []string) *cobra.Command {
	var node, jobs string
	cmd := &cobra.Command{
		Use:   "diagnose [TYPE/NAME]",
		Short: "Find what pods lose, and what to set instead",
		Long: `Diagnose has each node diagnose the containers of the pods that run there, as tare diagnose
does, and shows what all nodes found. It changes nothing. TYPE is pod, deployment, statefulset
or daemonset. Without TYPE/NAME it diagnoses all pods of the namespace.

Where a finding has a limit or a request to set, the command of kubectl that sets it stands below
the tables. It replaces the pods of the Deployment, StatefulSet or DaemonSet.

A pod of tare's on each node does the work, in the namespace of the pods or in that of
--job-namespace, and is removed then. It needs root on the node: docs/nodes.md lists its
privileges, and why it has them.`,
		Example: `  kubectl tare diagnose pod/web-1
  kubectl tare diagnose deployment/web --for 30s --fail-on high
  kubectl tare diagnose -n shop --job-namespace tare
  kubectl tare diagnose --node node1`,
	}
	cli.DiagnoseNodes(cmd, args, func(ctx context.Context, names []string, span time.Duration) (cli.OnNodes, error) {
		wanted, err := wantedBy(names, node)
		if err != nil {
			return cli.OnNodes{}, err
		}
		return s.look(ctx, wanted, jobs, span)
	})
	flags := cmd.Flags()
	flags.StringVar(&node, "node", "", "all pods of this `NODE`, of every namespace")
	flags.StringVar(&jobs, "job-namespace", "", "`NAMESPACE` of the pods that do the work (default: that of --namespace)")
	s.imageFlag(flags)
	s.clusterFlags(flags)
	return cmd
}

// wantedBy reads TYPE/NAME.
func wantedBy(names []string, node string) (w nodes.Wanted, err error) {
	if w.Node = node; len(names) == 0 {
		return w, nil
	}
	if len(names) > 1 {
		return w, command.UsageError("diagnose takes one TYPE/NAME, not %d; without one it takes the whole namespace", len(names))
	}
	if node != "" {
		return w, command.UsageError("--node diagnoses all pods of the node: leave out %s", names[0])
	}
	kind, name, _ := strings.Cut(names[0], "/")
	known, ok := nodes.KindOf(kind)
	if !ok || name == "" {
		return w, command.UsageError("%s: want pod/NAME, deployment/NAME, statefulset/NAME or daemonset/NAME", names[0])
	}
	w.Kind, w.Name = known, name
	return w, nil
}

// look has nodes look at pods.
func (s *session) look(
	ctx context.Context,
	wanted nodes.Wanted,
	jobs string,
	span time.Duration,
) (seen cli.OnNodes, err error) {
	if err := s.needsImage(); err != nil {
		return seen, err
	}
	cluster, err := nodes.Connect(s.kubeconfig, s.namespace)
	if err != nil {
		return seen, err
	}
	wanted.Namespace = cluster.Namespace
	cluster.Namespace = cmp.Or(jobs, cluster.Namespace)
	if err := s.permitted(cluster.CheckDiagnosis(ctx, wanted, s.image)); err != nil {
		return seen, err
	}
	pods, err := cluster.Pods(ctx, wanted)
	if err != nil {
		return seen, nodes.Reached(err)
	}
	s.say("%s on %s: %v\n", report.Counted(pods.Count(), "container"), report.Counted(len(pods.Nodes()), "node"), span)
	answers, err := cluster.Diagnose(ctx, nodes.Diagnosis{
		ID:    record.NewID("diagnose", time.Now(), uint16(rand.Uint32())),
		Image: s.image, Pods: pods, Span: span, IsNamed: wanted.Kind != "",
	})
	if ctx.Err() != nil {
		return seen, errors.New("stopped: what was made in the cluster is deleted, or goes by itself")
	}
	seen.Notes = pods.Notes()
	switch {
	case err != nil && answers == nil:
		return seen, nodes.Reached(err)
	case err != nil:
		seen.Notes = append(seen.Notes, err.Error())
	}
	var found []diagnose.Finding
	for _, a := range answers {
		document, missing := documentOf(a, pods)
		if missing != "" {
			seen.Missing = append(seen.Missing, diagnose.Missing{Node: a.Node, Cause: missing})
			continue
		}
		found = append(found, document.Findings...)
		seen.Nodes = append(seen.Nodes, diagnose.NodeDocument{Node: a.Node, Document: document})
	}
	pods.Patch(found, s.kubeconfig)
	return seen, nil
}

// documentOf reads a node's answer; missing says why there is none. A node speaks for the containers that run there.
func documentOf(a nodes.Answer, pods nodes.Pods) (d diagnose.Document, missing string) {
	if a.Missing != "" {
		return d, a.Missing
	}
	if err := json.Unmarshal(a.Text, &d); err != nil {
		return d, fmt.Sprintf("its result cannot be read: %v", err)
	}
	if d.Schema != diagnose.Schema {
		return d, fmt.Sprintf("its image writes %s, not %s: use the image of this version", d.Schema, diagnose.Schema)
	}
	for _, f := range d.Findings {
		if !pods.Has(a.Node, f.Container) || !slices.Contains(diagnose.Levels, f.Level) {
			return diagnose.Document{}, fmt.Sprintf("its result has %s (%s), for which it was not asked", f.ID, f.Level)
		}
	}
	return d, ""
}

// diagnoseHere is what the pod on a node runs. It leaves its control group alone: what it takes counts as the pod's.
func diagnoseHere() *cobra.Command {
	var span time.Duration
	var isNamed bool
	cmd := &cobra.Command{
		Use: "diagnose -- CONTAINER...", Short: "Diagnose containers of this node", Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().DurationVar(&span, "for", 10*time.Second, "how long to watch")
	cmd.Flags().BoolVar(&isNamed, "named", false, "watch all of them, and not only those that are busy")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := process.EnterHost(); err != nil {
			return err
		}
		document, err := cli.DiagnoseHere(cmd.Context(), names, span, isNamed)
		if err != nil {
			return err
		}
		return json.NewEncoder(terminal.Document(cmd.OutOrStdout())).Encode(document)
	}
	return cmd
}
