package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// guestDebianRecipe is a system that systemd starts, with engines and two kernels. No script of
// its packages has run: what they would have made, [build.layDebian] makes.
var guestDebianRecipe = recipe{
	name: string(GuestDebian),
	packages: []string{
		"linux-image-cloud-amd64", "linux-image-6.12-cloud-amd64",
		"systemd-sysv", "dbus", "dbus-user-session", "udev", "kmod", "base-files", "base-passwd", "passwd",
		"bash", "dash", "grep", "sed", "coreutils",
		"mount", "util-linux", "procps", "iproute2", "iptables",
		"apparmor", "runc", "crun", "containerd", "docker.io", "podman", "rootlesskit", "uidmap", "slirp4netns",
	},
	programs: []string{
		"/boot/vmlinuz-*",
		"/usr/lib/systemd/systemd*", "/usr/bin/systemctl", "/usr/bin/journalctl", "/usr/bin/systemd-*",
		"/usr/bin/busctl", "/usr/bin/udevadm", "/usr/bin/dbus-daemon", "/usr/bin/kmod", "/usr/bin/bash",
		"/usr/bin/dash", "/usr/bin/grep", "/usr/bin/sed",
		"/usr/bin/mount", "/usr/bin/umount", "/usr/bin/ps", "/usr/bin/cp", "/usr/sbin/apparmor_parser", "/usr/sbin/sysctl", "/usr/bin/ip",
		"/usr/sbin/xtables-nft-multi", "/usr/sbin/mkswap", "/usr/sbin/swapon", "/usr/bin/nsenter",
		"/usr/sbin/runc", "/usr/bin/crun", "/usr/bin/containerd*", "/usr/sbin/dockerd", "/usr/bin/docker*",
		"/usr/bin/podman", "/usr/bin/conmon", "/usr/bin/rootlesskit", "/usr/bin/newuidmap", "/usr/bin/slirp4netns",
	},
	// The buses' configuration, podman's, and its network.
	keep: []string{
		"dbus-system-bus-common", "dbus-session-bus-common", "dbus-user-session", "netbase", "containernetworking-plugins", "libgcc-s1",
		"golang-github-containers-common", "golang-github-containers-image",
	},
	links: map[string]string{
		"usr/sbin/iptables": "xtables-nft-multi", "usr/sbin/ip6tables": "xtables-nft-multi",
	},
	add: func(ctx context.Context, b *build) error { return b.layDebian(ctx) },
	sources: func() ([]byte, error) {
		return fmt.Append(nil, debianAccounts, debianGroups, debianRanges, debianLinks), nil
	},
}

// The accounts are the distribution's own, those that packages add, and a person's.
const (
	debianAccounts = "messagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n" +
		"systemd-network:x:998:998::/:/usr/sbin/nologin\n" +
		"person:x:1000:1000::/var/lib/person:/bin/bash\n" +
		"dockremap:x:101:101::/nonexistent:/usr/sbin/nologin\n"
	debianGroups = "messagebus:x:100:\nsystemd-network:x:998:\nsystemd-journal:x:999:\ndocker:x:102:\nperson:x:1000:\n" +
		"dockremap:x:101:\nkvm:x:103:\nrender:x:104:\nsgx:x:105:\ninput:x:106:\n"
	debianRanges = "person:100000:65536\ndockremap:165536:65536\n"
)

// debianLinks take the place of empty directories that packages bring: with those, a client that
// looks below /var/run finds no engine's socket.
var debianLinks = [][2]string{{"var/run", "/run"}, {"var/lock", "/run/lock"}}

// layDebian adds the accounts, the links of base-files, and the index of each kernel's modules.
// No unit is enabled but those that packages themselves link.
func (b *build) layDebian(ctx context.Context) error {
	for _, f := range []struct{ name, master, more string }{
		{"etc/passwd", "usr/share/base-passwd/passwd.master", debianAccounts},
		{"etc/group", "usr/share/base-passwd/group.master", debianGroups},
		{"etc/subuid", "", debianRanges},
		{"etc/subgid", "", debianRanges},
		{"etc/machine-id", "", ""}, // systemd makes one where it is empty
	} {
		var text []byte
		if f.master != "" {
			var err error
			if text, err = os.ReadFile(filepath.Join(b.root, f.master)); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(b.root, f.name), append(text, f.more...), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range []string{"root", "var/lib/person"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chown(filepath.Join(b.root, "var/lib/person"), 1000, 1000); err != nil {
		return err
	}
	for _, link := range debianLinks {
		at := filepath.Join(b.root, link[0])
		if err := errors.Join(os.Remove(at), os.Symlink(link[1], at)); err != nil {
			return err
		}
	}
	kernels, err := filepath.Glob(filepath.Join(b.root, "usr/lib/modules/*"))
	if err != nil {
		return err
	}
	for _, k := range kernels {
		if _, err := b.chroot(ctx, b.root, nil, "/usr/sbin/depmod", filepath.Base(k)); err != nil {
			return fmt.Errorf("index the modules of %s: %w", filepath.Base(k), err)
		}
	}
	return nil
}
