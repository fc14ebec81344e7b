package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
)

// Connect reads a configuration as kubectl does. An empty kubeconfig is the usual one, and an empty
// namespace the context's. The error may be a *NoCluster.
func Connect(kubeconfig, namespace string) (*Cluster, error) {
	klog.SetLogger(logr.Discard()) // an informer prints what it tries again
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = namespace
	deferred := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := deferred.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no configuration names one")
	}
	if err != nil {
		return nil, &NoCluster{err}
	}
	if namespace, _, err = deferred.Namespace(); err != nil {
		return nil, &NoCluster{err}
	}
	config.QPS, config.Burst = 50, 100 // a study of a thousand nodes is made in a minute
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &NoCluster{err}
	}
	return &Cluster{
		Client: client, Namespace: namespace, Exec: executor(client, config, namespace), Log: logReader(client),
	}, nil
}

// Log reads what a pod's container has written.
type Log func(ctx context.Context, namespace, pod, container string) ([]byte, error)

// greatestLog is the size of a log that is accepted from a node. A kubelet keeps 10 MiB by default.
const greatestLog = 16 << 20

func logReader(client kubernetes.Interface) Log {
	return func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
		most := int64(greatestLog)
		text, err := client.CoreV1().Pods(namespace).
			GetLogs(pod, &corev1.PodLogOptions{Container: container, LimitBytes: &most}).Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer text.Close()
		return io.ReadAll(io.LimitReader(text, most)) // the limit is kept by the node, if at all
	}
}

// Exec runs a command in a container, and writes its standard output. Where the command fails, the error has
// the last line of its standard error.
type Exec func(ctx context.Context, pod, container string, command []string, out io.Writer) error

func executor(client kubernetes.Interface, config *rest.Config, namespace string) Exec {
	return func(ctx context.Context, pod, container string, command []string, out io.Writer) error {
		url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: container, Command: command, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec).URL()
		sockets, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
		if err != nil {
			return err
		}
		older, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
		if err != nil {
			return err
		}
		both, err := remotecommand.NewFallbackExecutor(sockets, older, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return err
		}
		var said tail
		if err := both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: &said}); err != nil {
			if ctx.Err() != nil {
				return err // its copies may still be written to
			}
			if line := lastLine(string(said)); line != "" {
				err = fmt.Errorf("%s (%w)", line, err)
			}
			return err
		}
		return nil
	}
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(p), nil
}

// lastLine is the last line of a text that has words.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
