package swap

import (
	"os"
	"testing"
)

// dm-crypt is found below other mappings, and missed where one of several devices lacks it.
func TestEncrypted(t *testing.T) {
	h := fake(t, map[string]string{
		"sys/dev/block/8:1/partition":                "1",
		"sys/dev/block/253:0/dm/uuid":                "CRYPT-PLAIN-cryptswap\n",
		"sys/dev/block/253:0/slaves/sda/dev":         "8:0",
		"sys/dev/block/253:1/dm/uuid":                "LVM-abc\n",
		"sys/dev/block/253:1/slaves/dm-0/dm/uuid":    "CRYPT-LUKS2-abc-root\n",
		"sys/dev/block/253:2/dm/uuid":                "LVM-abc\n",
		"sys/dev/block/253:2/slaves/sda1/partition":  "1",
		"sys/dev/block/9:0/slaves/dm-0/dm/uuid":      "CRYPT-LUKS2-abc\n",
		"sys/dev/block/9:0/slaves/sdb1/partition":    "1",
		"sys/dev/block/253:3/slaves/a/slaves/b/size": "1",
	})
	for device, want := range map[Device]bool{{8, 1}: false, {253, 0}: true, {253, 1}: true, {253, 2}: false, {9, 0}: false, {253, 3}: false} {
		if got, err := h.Encrypted(device); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", device, got, err, want)
		}
	}
	if _, err := h.Encrypted(Device{7, 7}); !os.IsNotExist(err) {
		t.Errorf("a device that is not there: %v", err)
	}
}
