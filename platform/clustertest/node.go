package clustertest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"strings"
)

// expected are the settings of the kernel that a kubelet makes where they differ. They are the whole
// host's and stay: the kubelet reads files in their place.
var expected = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// StaticPods is the directory of a node from which its kubelet takes static pods.
const StaticPods = "/var/lib/kubelet/manifests"

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig is a containerd for a kubelet, beside others on this host.
//
// Without CAP_SYS_RESOURCE, which the host may lack, no badness (oom_score_adj) can be lowered.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "` + containerdSocket + `"
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + Busybox + `"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "` + pluginsAt + `"
conf_dir = "` + documentsAt + `/cni"
`

// programs gives the description of the node's machine.
func (n *Node) programs(c *Cluster) func(m *Machine, o *orders) error {
	return func(m *Machine, o *orders) error {
		// A kubelet is known by this name, and serves logs and exec as the host of that address.
		user := "system:node:" + m.Name
		kubelet, err := c.trust.issue(user, "system:nodes", []string{m.Name}, n.address)
		if err != nil {
			return err
		}
		err = errors.Join(
			os.MkdirAll(m.Path(StaticPods), 0o755),
			c.showPrograms(m, o),
			n.showSettings(m, o),
			m.write("ca.crt", c.trust.pem),
			m.writePair("kubelet", kubelet),
			c.admit(m, "node", user, "system:nodes"),
			c.admit(m, "proxy-user", "system:kube-proxy", ""),
			m.write("containerd.toml", []byte(containerdConfig)),
			m.writeJSON("cni/pods.conflist", n.podNetwork()),
			m.writeJSON("kubelet", kubeletConfig()),
			m.writeJSON("proxy", proxyConfig(m.Name)),
		)
		o.Programs["containerd"] = []string{containerdProgram, "--config", document("containerd.toml")}
		o.Programs["kubelet"] = []string{
			programsAt + "/kubelet", "--config=" + document("kubelet"), "--kubeconfig=" + document("node"),
			"--hostname-override=" + m.Name, "--node-ip=" + n.address.String(), "--root-dir=/var/lib/kubelet",
		}
		o.Programs["kube-proxy"] = []string{programsAt + "/kube-proxy", "--config=" + document("proxy")}
		return err
	}
}

// showSettings shows the machine the kernel's settings as a kubelet wants them, and an id of this boot.
func (n *Node) showSettings(m *Machine, o *orders) error {
	if err := m.write("boot", []byte(rand.Text()+"\n")); err != nil {
		return err
	}
	o.Shown = append(o.Shown, [2]string{m.Path(document("boot")), "/proc/sys/kernel/random/boot_id"})
	for setting, value := range expected {
		name := "kernel/" + strings.ReplaceAll(setting, "/", ".")
		if err := m.write(name, []byte(value+"\n")); err != nil {
			return err
		}
		o.Shown = append(o.Shown, [2]string{m.Path(document(name)), "/proc/sys/" + setting})
	}
	return nil
}

func (m *Machine) writeJSON(name string, o object) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	return m.write(name, text)
}

// podNetwork is a bridge of the node's own, on which its pods are.
func (n *Node) podNetwork() object {
	return object{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": n.pods.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

func kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": document("ca.crt")},
		},
		"authorization": object{"mode": "Webhook"},
		"tlsCertFile":   document("kubelet.crt"), "tlsPrivateKeyFile": document("kubelet.key"),
		"containerRuntimeEndpoint":  "unix://" + containerdSocket,
		"staticPodPath":             StaticPods,
		"cgroupDriver":              "cgroupfs",
		"failSwapOn":                false,
		"protectKernelDefaults":     true, // so that it fails where it would change the host
		"oomScoreAdj":               0,
		"volumePluginDir":           "/var/lib/kubelet/volume-plugins",
		"nodeStatusUpdateFrequency": reportPeriod,
		"nodeLeaseDurationSeconds":  leaseSeconds,
		// The disk is the host's. How full others have it is no reason to evict pods and images.
		"evictionHard": object{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	}
}

// proxyConfig leaves the limits of connection tracking as they are: they are the whole host's.
func proxyConfig(name string) object {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": document("proxy-user")},
		"hostnameOverride": name, "mode": "iptables", "clusterCIDR": allPods.String(), "oomScoreAdj": 0,
		"conntrack": object{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
	}
}
