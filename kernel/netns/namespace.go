// Package netns makes network namespaces and joins them to the host by a
// bridge and pairs of virtual Ethernet devices.
//
// It sets no packet filter and translates no address: what it joins is reached
// directly. See network_namespaces(7), veth(4), bridge(8).
package netns

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

// Create makes a network namespace with its loopback up, and keeps it at file,
// which is made: a mount that ends with [Delete].
func Create(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := process.OnFreshThread(func() error { return createHere(file) }); err != nil {
		return errors.Join(fmt.Errorf("making a network namespace: %w", err), os.Remove(file))
	}
	return nil
}

func createHere(file string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := RaiseLoopback(); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "mount on", Path: file, Err: err}
	}
	return nil
}

// RaiseLoopback brings up loopback in the calling thread's namespace: a new namespace has it down.
func RaiseLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	return nil
}

// Delete lets go of the namespace kept at file. The kernel removes it, with
// the devices in it, when the last process in it has ended. A file that is not
// there has been deleted.
func Delete(file string) error {
	switch err := unix.Unmount(file, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
	case nil, unix.EINVAL, unix.ENOENT:
	default:
		return &os.PathError{Op: "unmount", Path: file, Err: err}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// inside gives a connection to the kernel that speaks for the namespace kept at file.
func inside(file string) (ns netns.NsHandle, h *netlink.Handle, err error) {
	ns, err = netns.GetFromPath(file)
	if err != nil {
		return ns, nil, &os.PathError{Op: "open namespace", Path: file, Err: err}
	}
	h, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		_ = ns.Close()
	}
	return ns, h, err
}
