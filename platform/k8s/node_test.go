package k8s

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"tare/platform"
)

func TestReadConfig(t *testing.T) {
	files := map[string]string{
		"/var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: /etc/kubernetes/manifests\n" +
			"containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\ncpuManagerPolicy: static\nevictionHard: {memory.available: 100Mi}\n",
		"/etc/relative.json": `{"kind":"KubeletConfiguration","staticPodPath":"pods","podLogsDir":"/logs"}`,
		"/etc/none.yaml":     "kind: KubeletConfiguration\n",
		"/etc/crio.yaml":     "staticPodPath: /pods\ncontainerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n",
		"/etc/bad.yaml":      "staticPodPath: [\n",
	}
	readFile := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	const socket, logs = "/run/containerd/containerd.sock", "/var/log/pods"
	for line, want := range map[string]kubeletConfig{
		"--config=/var/lib/kubelet/config.yaml --v=2":                           {StaticPods: "/etc/kubernetes/manifests", Endpoint: socket, PodLogs: logs, CPUManager: "static"},
		"--v 2 --config /var/lib/kubelet/config.yaml --pod-manifest-path /mine": {StaticPods: "/mine", Endpoint: socket, PodLogs: logs, CPUManager: "static"},
		"-config=/etc/relative.json":                                            {StaticPods: "/etc/pods", Endpoint: socket, PodLogs: "/logs"},
		"--pod-manifest-path=/m --container-runtime-endpoint=unix:///x":         {StaticPods: "/m", Endpoint: "/x", PodLogs: logs},
	} {
		if got, err := readConfig(strings.Fields(line), readFile); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for line, says := range map[string]string{
		"--config=/etc/none.yaml": "staticPodPath: /etc/kubernetes/manifests in /etc/none.yaml",
		"--v=2":                   "static pods",
		"--config=/etc/crio.yaml": "CRI-O",
		"--config=/etc/gone.yaml": "/etc/gone.yaml",
		"--config=/etc/bad.yaml":  "/etc/bad.yaml",
	} {
		_, err := readConfig(strings.Fields(line), readFile)
		if missing := new(platform.Missing); !errors.As(err, &missing) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a *platform.Missing that says %q", line, err, says)
		}
	}
}
