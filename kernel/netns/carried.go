package netns

import (
	"fmt"
	"net"
)

// Carried counts the bytes that the devices of the namespace kept at file have
// received and sent since they were made, loopback's apart: headers among them,
// and of what the kernel cuts up late, as it was before (tcp segmentation offload).
func Carried(file string) (uint64, error) {
	ns, handle, err := inside(file)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	defer handle.Close()
	links, err := handle.LinkList()
	if err != nil {
		return 0, fmt.Errorf("listing the devices in %s: %w", file, err)
	}
	var bytes uint64
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback != 0 || l.Attrs().Statistics == nil {
			continue
		}
		bytes += l.Attrs().Statistics.RxBytes + l.Attrs().Statistics.TxBytes
	}
	return bytes, nil
}
