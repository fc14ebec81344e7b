package k8s

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tare/image"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/rootfs"
)

func podOf(t *testing.T, spec platform.Spec, program platform.Process, to ways, binds ...rootfs.Bind) corev1.Pod {
	t.Helper()
	program.Env = append(program.Env, platform.Surroundings.Env...)
	text, err := manifest("0123456789abcdef", spec, program, binds, to)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a kubelet would not say that it knows no such key
	if err := d.Decode(&pod); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return pod
}

func TestManifest(t *testing.T) {
	spec := platform.Spec{
		Name: "redis-1", Image: image.Image{Name: "redis", Reference: "tare.local/redis:1"},
		Setting: platform.Setting{Network: platform.NetworkNAT}, Ports: []int{80},
	}
	program := platform.Process{
		Args: []string{"/bin/sh", "-c", "echo $HOME $(pwd)"}, Env: []string{"HOME=/root", "A=$(HOME)=$$", "B="}, Dir: "/srv",
		User: process.User{UID: 12, GID: 34, Groups: []int{5, 6}},
	}
	pod := podOf(t, spec, program, ways{published: map[int]int{80: 20080}}, rootfs.Bind{Source: "/var/lib/tare/x", Target: "/data"})
	c := pod.Spec.Containers[0]
	if pod.Name != "redis-1" || pod.UID != "0123456789abcdef" || pod.Spec.Hostname != platform.Surroundings.Hostname || pod.Spec.HostNetwork {
		t.Errorf("%+v", pod.ObjectMeta)
	}
	if c.Image != "tare.local/redis:1" || c.ImagePullPolicy != corev1.PullNever || c.WorkingDir != "/srv" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", c)
	}
	// A kubelet replaces $(NAME), and makes $$ a single $.
	if want := []string{"/bin/sh", "-c", "echo $$HOME $$(pwd)"}; !slices.Equal(c.Command, want) {
		t.Errorf("command %q, want %q", c.Command, want)
	}
	if len(c.Env) != 5 || c.Env[1].Value != "$$(HOME)=$$$$" || c.Env[2] != (corev1.EnvVar{Name: "B"}) {
		t.Errorf("environment %+v", c.Env)
	}
	if want := (corev1.ContainerPort{ContainerPort: 80, HostPort: 20080, HostIP: "127.0.0.1"}); len(c.Ports) != 1 || c.Ports[0] != want {
		t.Errorf("ports %+v, want %+v", c.Ports, want)
	}
	security := pod.Spec.SecurityContext
	if *security.RunAsUser != 12 || *security.RunAsGroup != 34 || !slices.Equal(security.SupplementalGroups, []int64{5, 6}) || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", security)
	}
	if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/data" || pod.Spec.Volumes[0].HostPath.Path != "/var/lib/tare/x" {
		t.Errorf("%+v %+v", c.VolumeMounts, pod.Spec.Volumes)
	}

	// A Service selects the pod by its label, in the Service's namespace, and its ports by their names.
	pod = podOf(t, spec, program, ways{service: &Service{Namespace: "bench", Name: "s-1"}})
	want := []corev1.ContainerPort{{Name: PortName(0), ContainerPort: 80}}
	if pod.Namespace != "bench" || pod.Labels[ServiceLabel] != "s-1" || !slices.Equal(pod.Spec.Containers[0].Ports, want) {
		t.Errorf("%+v, ports %+v", pod.ObjectMeta, pod.Spec.Containers[0].Ports)
	}

	spec.Setting = platform.Setting{Seccomp: "unconfined"}
	pod = podOf(t, spec, platform.Process{Args: []string{"x"}}, ways{})
	if !pod.Spec.HostNetwork || pod.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeUnconfined {
		t.Errorf("%+v", pod.Spec)
	}
	spec.Image.Config.Env = []string{"OF=image", "NOTHING"}
	for says, env := range map[string][]string{"A B": {"A B=1"}, "PATH": nil, "OF": platform.Surroundings.Env} {
		_, err := manifest("1", spec, platform.Process{Args: []string{"x"}, Env: env}, nil, ways{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("variables that pods do not have so, %q: %v, want %q", env, err, says)
		}
	}
}

// What a kubelet makes of requests and limits: pkg/kubelet/cm/helpers_linux.go of Kubernetes 1.30,
// MilliCPUToQuota and MilliCPUToShares, and the class by pkg/apis/core/v1/helper/qos.
func TestResources(t *testing.T) {
	const period = 100_000 // microseconds
	for _, test := range []struct {
		setting       platform.Setting
		quota, shares int64 // quota in microseconds
		memory        int64
		class         corev1.PodQOSClass
	}{
		{platform.Setting{}, 0, 2, 0, corev1.PodQOSBestEffort},
		{platform.Setting{CPUs: 2}, 200_000, 2048, 0, corev1.PodQOSBurstable},
		{platform.Setting{CPUs: 0.5, Memory: 64 << 20}, 50_000, 512, 64 << 20, corev1.PodQOSGuaranteed},
		{platform.Setting{CPUs: 0.0105}, 1100, 11, 0, corev1.PodQOSBurstable},
		{platform.Setting{CPUs: 1, CPUShares: 256, Memory: 1 << 30}, 100_000, 256, 1 << 30, corev1.PodQOSBurstable},
		{platform.Setting{Memory: 1<<20 + 1}, 0, 2, 1<<20 + 1, corev1.PodQOSBurstable},
		{platform.Setting{CPUShares: 1024}, 0, 1024, 0, corev1.PodQOSBurstable},
		{platform.Setting{CPUShares: 2}, 0, 2, 0, corev1.PodQOSBurstable},
	} {
		spec := platform.Spec{Name: "p", Setting: test.setting}
		c := podOf(t, spec, platform.Process{Args: []string{"x"}}, ways{}).Spec.Containers[0]
		limits, requests := c.Resources.Limits, c.Resources.Requests
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		for name, limit := range limits { // SetDefaults_Pod
			if _, given := requests[name]; !given {
				requests[name] = limit
			}
		}
		quota, shares := limits.Cpu().MilliValue()*period/1000, max(requests.Cpu().MilliValue()*1024/1000, 2)
		class := corev1.PodQOSBurstable
		switch {
		case len(requests) == 0:
			class = corev1.PodQOSBestEffort
		case !limits.Cpu().IsZero() && !limits.Memory().IsZero() && limits.Cpu().Cmp(*requests.Cpu()) == 0:
			class = corev1.PodQOSGuaranteed
		}
		if quota != test.quota || shares != test.shares || limits.Memory().Value() != test.memory || class != test.class {
			t.Errorf("%s: quota %d, shares %d, memory %d, class %s; want %+v", test.setting, quota, shares, limits.Memory().Value(), class, test)
		}
	}
	for shares := 2; shares <= 262144; shares++ {
		if got := requestOf(shares) * 1024 / 1000; got < int64(shares) || got > int64(shares)+1 {
			t.Fatalf("%d shares come back as %d", shares, got)
		}
	}
}

func TestSupports(t *testing.T) {
	p := New(Options{})
	for _, s := range []platform.Setting{
		{}, {CPUs: 1, CPUPeriod: 100 * time.Millisecond}, {CPUs: 0.5, CPUShares: 512}, {Memory: 1 << 20}, {Network: platform.NetworkBridge},
		{Network: platform.NetworkNAT},
		{Storage: platform.StorageBind}, {Seccomp: "unconfined"}, {GPU: platform.NoGPU},
	} {
		if err := p.Supports(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for key, s := range map[string]platform.Setting{
		"cpus": {CPUs: 0.001}, "cpu-period": {CPUs: 1, CPUPeriod: 10 * time.Millisecond}, "cpu-shares": {CPUs: 0.5, CPUShares: 1024},
		"cpuset-cpus": {CPUSet: "0"}, "storage": {Storage: platform.StorageTmpfs}, "network": {Network: platform.NetworkProxy},
		"runtime": {Runtime: "crun"}, "gpu": {GPU: "0"}, "cpu-burst": {CPUs: 1, CPUBurst: time.Millisecond},
	} {
		if refused := new(platform.Unsupported); !errors.As(p.Supports(s), &refused) || !strings.HasPrefix(refused.Key, key) {
			t.Errorf("%s: %v", s, p.Supports(s))
		}
	}
}

// A manifest is removed by its pod's uid, hidden or not.
func TestRemoveManifest(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tare-redis.json")
	for uid, gone := range map[string]bool{"other": false, "0123456789abcdef": true} {
		text, err := manifest("0123456789abcdef", platform.Spec{Name: "p"}, platform.Process{Args: []string{"x"}, Env: platform.Surroundings.Env}, nil, ways{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := removeManifest(name, uid); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); (err != nil) != gone {
			t.Errorf("removed as pod %s: %v", uid, err)
		}
	}
	if err := removeManifest(name, "x"); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	err := New(Options{}).Remove(t.Context(), platform.Entry{Kind: kindPod, ID: "1", Attrs: map[string]string{attrManifest: "/etc/kubernetes/manifests/etcd.yaml"}})
	if err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("a manifest of somebody else's: %v", err)
	}
	if _, err := findNode(); err == nil {
		return // what follows is said where no kubelet runs
	}
	err = New(Options{}).Remove(t.Context(), platform.Entry{Kind: kindPod, ID: "1", Attrs: map[string]string{attrManifest: name}})
	if err == nil || !strings.Contains(err.Error(), "no kubelet runs on this host") || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("without a kubelet: %v", err)
	}
}
