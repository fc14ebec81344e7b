// Package kubectl is the command line of kubectl-tare: tare's studies, measured on nodes of a
// Kubernetes cluster, the diagnosis of pods, and what the nodes' pods run.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/cli"
	"tare/cli/command"
	"tare/nodes"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/weigh"
	"tare/terminal"
)

// Main runs one command line and returns the exit code.
func Main(args []string) int { return command.Main(Command(args), args, exitCode) }

// Command is the command line. A study's arguments are passed on as they stand in args.
func Command(args []string) *cobra.Command {
	s := &session{}
	root, stateDir := cli.ElsewhereCommand("kubectl-tare", args, s)
	s.root = root
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tare"}
	root.Short = "Measure tare's studies on nodes of a Kubernetes cluster"
	root.Long = `Kubectl-tare has nodes measure a study of tare, one Job a node, and brings their runs into the
store of this machine. The nodes that --nodes chooses measure at the same time, each by itself
and by tare's command line. tare show and tare export read the runs here.

Measuring needs root on the nodes. docs/nodes.md says which privileges a pod has, and why.

Diagnose finds what pods of the cluster lose. It keeps nothing.

Ctrl-C leaves the nodes measuring: kubectl tare resume STUDY, or the same command again, goes on
and fetches what they keep. kubectl delete configmap tare-STUDY ends it and removes everything.`
	root.Example = `  kubectl tare weigh redis --quick --nodes pool=bench --node-image REGISTRY/tare@sha256:...
  kubectl tare resume weigh-20260102-150405-7f3a
  kubectl tare diagnose deployment/web --node-image REGISTRY/tare@sha256:...`
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, study := range root.Commands() {
		asTypedHere(root, study)
		if study.Name() == weigh.Name { // tare's examples are of Docker, and its threshold is for one machine
			study.Long, _, _ = strings.Cut(study.Long, "\n\nWith --fail-above")
			study.Example = `  kubectl tare weigh redis --quick --nodes pool=bench
  kubectl tare weigh redis --platform bare,containerd,k8s --network bridge --nodes pool=bench
  kubectl tare weigh --workload service.yaml --memory 512m --nodes pool=bench
  kubectl tare weigh --image app:1 --platform bare,k8s --nodes pool=bench -- /bin/app --once`
		}
	}
	root.AddCommand(s.diagnose(args), s.resume(stateDir), rights(), node(stateDir))
	return root
}

// asTypedHere has the examples of a study, which are tare's, name this program and its nodes.
func asTypedHere(root, cmd *cobra.Command) {
	var lines []string
	for line := range strings.Lines(cmd.Example) {
		line = strings.TrimSuffix(line, "\n")
		if typed, ok := strings.CutPrefix(line, "  tare "); ok {
			if found, rest, err := root.Find(strings.Fields(typed)); err == nil {
				words := append([]string{found.CommandPath(), "--nodes pool=bench"}, rest...)
				line = "  " + strings.Join(words, " ")
			}
		}
		lines = append(lines, line)
	}
	cmd.Example = strings.Join(lines, "\n")
	for _, sub := range cmd.Commands() {
		asTypedHere(root, sub)
	}
}

// exitCode maps an error's type to the code that scripts read.
func exitCode(err error) int {
	for _, usage := range []any{new(*nodes.NoNode), new(*nodes.BadSelector), new(*nodes.NoStudy), new(*nodes.NoPod)} {
		if errors.As(err, usage) {
			return command.Usage
		}
	}
	for _, lack := range []any{new(*nodes.NoCluster), new(*nodes.NotAllowed), new(*nodes.Refused)} {
		if errors.As(err, lack) {
			return command.Host
		}
	}
	return cli.ExitCode(err)
}

// session is one invocation that talks to a cluster: what carries studies out elsewhere.
type session struct {
	root                                   *cobra.Command
	selector, kubeconfig, namespace, image string

	cluster *nodes.Cluster
	found   []nodes.Node
}

func (s *session) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.selector, "nodes", "", "nodes that measure, by a `SELECTOR` of labels, such as pool=bench")
	s.imageFlag(flags)
	s.clusterFlags(flags)
}

func (s *session) imageFlag(flags *pflag.FlagSet) {
	flags.StringVar(&s.image, "node-image", os.Getenv("TARE_NODE_IMAGE"), "`IMAGE` of the pods, as make image makes it (default: $TARE_NODE_IMAGE)")
}

func (s *session) clusterFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "`FILE` with the cluster's configuration (default: as kubectl)")
	flags.StringVarP(&s.namespace, "namespace", "n", "", "`NAMESPACE` of the pods (default: the context's)")
}

// Least connects to the cluster, and gives the least CPUs and memory of the nodes.
func (s *session) Least(ctx context.Context) (cpus int, memory int64, err error) {
	if strings.TrimSpace(s.selector) == "" {
		return 0, 0, command.UsageError("--nodes names no node: want labels, such as --nodes pool=bench, or --nodes kubernetes.io/os=linux for all")
	}
	if err := s.needsImage(); err != nil {
		return 0, 0, err
	}
	if err := s.connect(ctx); err != nil {
		return 0, 0, err
	}
	if s.found, err = s.cluster.Nodes(ctx, s.selector); err != nil {
		return 0, 0, nodes.Reached(err)
	}
	fit := slices.DeleteFunc(slices.Clone(s.found), func(n nodes.Node) bool { return n.Unfit() != "" })
	if len(fit) == 0 {
		return 0, 0, command.WithCode(command.Host, fmt.Errorf("no node of --nodes %s can measure: %s: %s", s.selector, s.found[0].Name, s.found[0].Unfit()))
	}
	cpus, memory = fit[0].CPUs, fit[0].Memory
	for _, n := range fit {
		cpus, memory = min(cpus, n.CPUs), min(memory, n.Memory)
	}
	s.say("%s: %s\n", report.Counted(len(s.found), "node"), enumerated(s.names()))
	return cpus, memory, nil
}

func (s *session) needsImage() error {
	if s.image == "" {
		return command.UsageError("--node-image names no image: make image makes it and prints its digest; push it to where the nodes pull from")
	}
	if _, err := reference.ParseDockerRef(s.image); err != nil {
		return command.UsageError("--node-image %s: %v: want REGISTRY/NAME@sha256:DIGEST, as make image prints it", s.image, err)
	}
	if !strings.Contains(s.image, "@sha256:") {
		s.say("--node-image %s has no digest: nodes may run different versions of it\n", s.image)
	}
	return nil
}

// connect refuses a cluster that does not answer, and a user who may not do what is needed.
func (s *session) connect(ctx context.Context) (err error) {
	if s.cluster, err = nodes.Connect(s.kubeconfig, s.namespace); err != nil {
		return err
	}
	return nodes.Reached(s.cluster.CheckRights(ctx))
}

// permitted prints the Role that grants what the user lacks, where that is the error.
func (s *session) permitted(err error) error {
	if lacking := new(nodes.NotAllowed); errors.As(err, &lacking) {
		for line := range strings.Lines(lacking.Roles) { // say escapes a line's end
			s.say("%s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return nodes.Reached(err)
}

// enumerated names the first few of many.
func enumerated(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (s *session) names() []string {
	var names []string
	for _, n := range s.found {
		names = append(names, n.Name)
	}
	return names
}

// study is a study of the command line on the nodes that were found.
func (s *session) study(wanted cli.Study) nodes.Study {
	return nodes.Study{
		ID: wanted.ID, Args: wanted.Args, Selector: s.selector, Image: s.image, Nodes: s.names(),
		Files: wanted.Files, Images: wanted.Images,
		Services: nodes.Services{Pods: wanted.Services, Ports: wanted.ServicePorts},
	}
}

// StateDir is that of the nodes.
func (s *session) StateDir() string { return nodes.StateDir }

// Check asks whether the cluster would take the study.
func (s *session) Check(ctx context.Context, wanted cli.Study) error {
	if len(wanted.Services) > 0 {
		if err := s.cluster.CheckServiceRights(ctx); err != nil {
			return nodes.Reached(err)
		}
	}
	return nodes.Reached(s.cluster.CheckAdmission(ctx, s.study(wanted)))
}

// Carry makes the study's objects, or finds those that the same command made before, and follows.
func (s *session) Carry(ctx context.Context, wanted cli.Study) error {
	study := s.study(wanted)
	before, found, err := s.cluster.Unfinished(ctx, study)
	if err != nil {
		return nodes.Reached(err)
	}
	if found {
		s.say("study %s goes on, which the same command began; for a new one, delete it: %s\n", before.ID, s.deletion(before))
		return s.follow(ctx, before, wanted.Dir)
	}
	s.warn(study)
	if study, err = s.cluster.Create(ctx, study); err != nil {
		return nodes.Reached(err)
	}
	s.say("study %s; %s ends it and removes everything\n", study.ID, s.deletion(study))
	return s.follow(ctx, study, wanted.Dir)
}

// warn says what of a study its user may not expect.
func (s *session) warn(study nodes.Study) {
	for _, image := range study.Images {
		if !strings.Contains(image, "@sha256:") {
			s.say("image %s has no digest: nodes may have different versions of it\n", image)
		}
	}
	if study.Services.Pods[platform.NetworkNodePort] > 0 {
		s.say("other machines reach the pods at NodePorts until the study has ended; shipped services have no password\n")
	}
}

func (s *session) deletion(study nodes.Study) string {
	return "kubectl delete -n " + s.cluster.Namespace + " configmap " + study.Parent()
}

func (s *session) resume(stateDir func() (string, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume STUDY",
		Short: "Go on with a study, and fetch what its nodes keep",
		Long: `Resume follows a study that was left, and fetches the runs of nodes that have measured meanwhile.
Nodes that were missing are tried again.`,
		Example: "  kubectl tare resume weigh-20260102-150405-7f3a",
		Args:    command.ExactArgs(1),
	}
	s.clusterFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := stateDir()
		if err != nil {
			return err
		}
		if err := s.connect(cmd.Context()); err != nil {
			return err
		}
		study, err := s.cluster.Load(cmd.Context(), args[0])
		if err != nil {
			return nodes.Reached(err)
		}
		return s.follow(cmd.Context(), study, dir)
	}
	return cmd
}

// rights prints what an administrator applies once.
func rights() *cobra.Command {
	var users, groups []string
	var namespace string
	cmd := &cobra.Command{
		Use:   "rights",
		Short: "Print the objects that grant users what studies need, for kubectl apply",
		Long: `Rights prints a namespace that admits the pods, a Role, a ClusterRole, and what binds them to users
and groups. It asks no cluster. Who has these rights has root on the nodes.`,
		Example: "  kubectl tare rights --group benchmarks | kubectl apply -f -",
		Args:    command.ExactArgs(0),
	}
	cmd.Flags().StringArrayVar(&users, "user", nil, "`USER` who may measure, as the cluster names them; may be repeated")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "`GROUP` whose members may measure; may be repeated")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "tare", "`NAMESPACE` of the pods")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(users)+len(groups) == 0 {
			return command.UsageError("for whom? --user NAME or --group NAME, such as kubectl auth whoami prints")
		}
		text, err := nodes.Rights(namespace, users, groups)
		if err != nil {
			return err
		}
		_, err = io.WriteString(terminal.Document(cmd.OutOrStdout()), text)
		return err
	}
	return cmd
}

// follow follows a study to its end, and says what came of it.
func (s *session) follow(ctx context.Context, study nodes.Study, dir string) error {
	store, err := record.Open(cli.StorePath(dir))
	if err != nil {
		return err
	}
	defer store.Close()
	all, err := s.cluster.Nodes(ctx, "") // one that has lost its label measures still
	if err != nil {
		return nodes.Reached(err)
	}
	outcome, err := s.cluster.Follow(ctx, study, all, store, func(e nodes.Event) { s.say("%s: %s\n", e.Node, e.Text) })
	if ctx.Err() != nil {
		return fmt.Errorf("left: %s fetched; the nodes go on: kubectl tare resume -n %s %s fetches the rest; %s ends it and removes everything",
			report.Counted(len(outcome.Fetched), "run"), s.cluster.Namespace, study.ID, s.deletion(study))
	}
	if deleted := new(nodes.Deleted); errors.As(err, &deleted) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; kubectl tare resume -n %s %s goes on", nodes.Reached(err), s.cluster.Namespace, study.ID)
	}
	shown := ""
	if len(outcome.Fetched) > 0 {
		shown = ": tare show " + study.ID
	}
	terminal.Fprintf(s.root.OutOrStdout(), "study %s: %d of %s fetched%s\n",
		study.ID, len(outcome.Fetched), report.Counted(len(study.Nodes), "node"), shown)
	if len(outcome.Missing) == 0 {
		return nodes.Reached(s.cluster.Delete(ctx, study))
	}
	for _, m := range outcome.Missing {
		terminal.Fprintf(s.root.OutOrStdout(), "  missing: %s: %s\n", m.Node, m.Cause)
	}
	return fmt.Errorf("%s missing: kubectl tare resume -n %s %s tries again; %s removes what is left, and the same command then begins a new study",
		report.Counted(len(outcome.Missing), "node"), s.cluster.Namespace, study.ID, s.deletion(study))
}

// say prints how it goes on.
func (s *session) say(format string, values ...any) {
	terminal.Fprintf(s.root.ErrOrStderr(), format, values...)
}
