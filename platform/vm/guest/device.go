package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Device names a disk as the machine finds it: by its serial where the engine gives
// disks one, else by its place among them, from 0.
func Device(k Kernel, serial string, index int) string {
	if k == UML {
		return "ubd:" + strconv.Itoa(index)
	}
	return "virtio:" + serial
}

// SerialOf is the serial of the disk that holds the image of that digest. A virtio
// disk has 20 bytes for it: too few for a digest, enough for two never to meet. It
// begins with a letter, as QEMU wants of its own names.
func SerialOf(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return "i" + hex.EncodeToString(sum[:])[:19]
}

// device is a disk, named.
type device struct {
	serial string // of a virtio disk; empty is user-mode Linux'
	index  int
}

// user-mode Linux has 16 disks: ubda to ubdp.
const mostUBD = 16

var serialShape = regexp.MustCompile(`^[A-Za-z0-9_-]{1,20}$`)

func parseDevice(name string) (device, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "virtio":
		if serialShape.MatchString(rest) {
			return device{serial: rest}, nil
		}
	case "ubd":
		if index, err := strconv.Atoi(rest); err == nil && index >= 0 && index < mostUBD && strconv.Itoa(index) == rest {
			return device{index: index}, nil
		}
	}
	return device{}, fmt.Errorf("%q names no disk: virtio:SERIAL (20 letters and digits at most) or ubd:INDEX (0 to %d)", name, mostUBD-1)
}
