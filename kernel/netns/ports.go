package netns

import (
	"os"

	"tare/kernel/process"
)

// SparePorts lets a client in the namespace kept at file make a connection for
// each request for as long as it likes: nearly all ports are its own to connect
// from, and one that was closed a second ago is taken again (tcp_tw_reuse), where
// the kernel would keep it for a minute and run out of 28,232. It is for namespaces
// that one's own client alone is in. See Documentation/networking/ip-sysctl.rst.
func SparePorts(file string) error {
	return process.OnFreshThread(func() error {
		if err := Enter(file); err != nil {
			return err
		}
		// Which namespace's these files are is decided by the thread that opens them.
		for name, value := range map[string]string{"ip_local_port_range": "1024 65535", "tcp_tw_reuse": "1"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}
