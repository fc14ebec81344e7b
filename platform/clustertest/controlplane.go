package clustertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"tare/kernel/netns"
)

// Where a machine finds what is written for it.
const (
	programsAt  = "/run/kubernetes"
	documentsAt = "/run/cluster" // certificates, keys and configurations
	serverPort  = 6443
)

// How soon a silent kubelet is taken for one that is gone. Kubernetes' own are 10, 40 and 40 s.
const (
	reportPeriod  = "3s"
	leaseSeconds  = 8
	graceDuration = "12s"
)

// document is where a machine finds a document of that name.
func document(name string) string { return filepath.Join(documentsAt, name) }

// write gives the machine a document, which nobody but root reads.
func (m *Machine) write(name string, text []byte) error {
	path := m.Path(document(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// writePair gives the machine a certificate and its key, NAME.crt and NAME.key.
func (m *Machine) writePair(name string, p pair) error {
	return errors.Join(m.write(name+".crt", p.certificate), m.write(name+".key", p.key))
}

// admit has the machine's programs be a user of the API, by the kubeconfig of that name.
func (c *Cluster) admit(m *Machine, name, user, group string) error {
	issued, err := c.trust.issue(user, group, nil)
	if err != nil {
		return err
	}
	text, err := c.trust.kubeconfig(fmt.Sprintf("https://%s:%d", controlAddress(), serverPort), issued)
	if err != nil {
		return err
	}
	return m.write(name, text)
}

// showPrograms shows the machine Kubernetes' programs, wherever they lie on the host.
func (c *Cluster) showPrograms(m *Machine, o *orders) error {
	at := m.Path(programsAt)
	o.Shown = append(o.Shown, [2]string{c.programs, at})
	return os.MkdirAll(at, 0o755)
}

// controlPlane describes the machine of etcd, the API server, the controllers and the scheduler.
func (c *Cluster) controlPlane(m *Machine, o *orders) error {
	own := netip.MustParseAddr("127.0.0.1")
	server, err := c.trust.issue("kube-apiserver", "",
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		own, controlAddress(), netns.Gateway(services))
	if err != nil {
		return err
	}
	client, err := c.trust.issue("kube-apiserver-kubelet-client", "system:masters", nil)
	if err != nil {
		return err
	}
	accounts, err := c.trust.issue("service-accounts", "", nil)
	if err != nil {
		return err
	}
	err = errors.Join(
		c.showPrograms(m, o),
		m.write("ca.crt", c.trust.pem),
		m.writePair("server", server),
		m.writePair("client", client),
		m.writePair("accounts", accounts),
		c.admit(m, "controllers", "system:kube-controller-manager", ""),
		c.admit(m, "scheduler", "system:kube-scheduler", ""),
		os.MkdirAll(m.Path("var/lib/etcd"), 0o700),
		c.writeKubeconfig(),
	)
	if err != nil {
		return err
	}
	// Each commit waits for the disk otherwise. Nobody reads them after the cluster.
	o.InMemory = []string{"var/lib/etcd"}
	const etcd = "http://127.0.0.1:2379"
	o.Programs["etcd"] = []string{
		etcdProgram, "--name", "etcd", "--data-dir", "/var/lib/etcd/data",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
	}
	o.Programs["kube-apiserver"] = []string{
		programsAt + "/kube-apiserver",
		"--etcd-servers=" + etcd,
		"--advertise-address=" + controlAddress().String(),
		fmt.Sprintf("--secure-port=%d", serverPort),
		"--service-cluster-ip-range=" + services.String(),
		"--tls-cert-file=" + document("server.crt"), "--tls-private-key-file=" + document("server.key"),
		"--client-ca-file=" + document("ca.crt"),
		"--kubelet-certificate-authority=" + document("ca.crt"),
		"--kubelet-client-certificate=" + document("client.crt"), "--kubelet-client-key=" + document("client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + document("accounts.key"),
		"--service-account-signing-key-file=" + document("accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--profiling=false",
	}
	as := func(name string) []string {
		at := document(name)
		return []string{"--kubeconfig=" + at, "--authentication-kubeconfig=" + at, "--authorization-kubeconfig=" + at,
			"--leader-elect=false", "--bind-address=127.0.0.1"}
	}
	o.Programs["kube-controller-manager"] = append([]string{
		programsAt + "/kube-controller-manager",
		"--root-ca-file=" + document("ca.crt"), "--flex-volume-plugin-dir=/var/lib/volume-plugins",
		"--service-account-private-key-file=" + document("accounts.key"),
		"--use-service-account-credentials=true",
		"--node-monitor-grace-period=" + graceDuration, "--node-monitor-period=1s",
	}, as("controllers")...)
	o.Programs["kube-scheduler"] = append([]string{programsAt + "/kube-scheduler"}, as("scheduler")...)
	return nil
}

// writeKubeconfig writes the file that clients on the host are given.
func (c *Cluster) writeKubeconfig() error {
	admin, err := c.trust.issue("admin", "system:masters", nil)
	if err != nil {
		return err
	}
	address := c.listener.Addr().(*net.TCPAddr)
	text, err := c.trust.kubeconfig("https://"+address.String(), admin)
	if err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.dir, "kubeconfig")
	if err := c.connect("https://"+address.String(), admin); err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig, text, 0o600)
}
