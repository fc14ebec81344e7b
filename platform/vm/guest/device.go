package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// Device names a virtio disk as the machine finds it: by its serial.
func Device(serial string) string { return "virtio:" + serial }

// SerialOf is the serial of the disk that holds the image of that digest. A virtio
// disk has 20 bytes for it: too few for a digest, enough for two never to meet. It
// begins with a letter, as QEMU wants of its own names.
func SerialOf(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return "i" + hex.EncodeToString(sum[:])[:19]
}

// device is a virtio disk, by its serial.
type device struct{ serial string }

// String is the disk's name, which [parseDevice] reads.
func (d device) String() string { return Device(d.serial) }

var serialShape = regexp.MustCompile(`^[A-Za-z0-9_-]{1,20}$`)

func parseDevice(name string) (device, error) {
	if kind, serial, _ := strings.Cut(name, ":"); kind == "virtio" && serialShape.MatchString(serial) {
		return device{serial}, nil
	}
	return device{}, fmt.Errorf("%q names no disk: virtio:SERIAL, of 20 letters and digits at most", name)
}
