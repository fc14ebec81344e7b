package swap

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

func TestReserve(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 4 << 30: 512 << 20, 8 << 30: 1 << 30, 100 << 30: 1 << 30, 1000 << 30: 10 << 30} {
		if got := reserveOf(size); got != want {
			t.Errorf("of %d bytes %d are for others, want %d", size, got, want)
		}
	}
}

// A swap file leaves others room, up to whose last byte it may have the rest.
func TestAReserveIsLeft(t *testing.T) {
	dir := onDisk(t)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	left := int64(st.Bavail * uint64(st.Bsize))
	// Others write to the disk meanwhile, so the file is to reach well into the reserve.
	reserve := reserveOf(int64(st.Blocks * uint64(st.Bsize)))
	page := int64(os.Getpagesize())
	size := (left - reserve/2) &^ (page - 1)
	if size < fewestPages*page {
		t.Skipf("%s is nearly full", dir)
	}
	var full *Full
	if err := Fits(dir, size); !errors.As(err, &full) || full.Reserve != reserve || full.Have < full.Want || !strings.Contains(err.Error(), "stay for other programs") {
		t.Errorf("a file that leaves half the reserve: %+v, %v", full, err)
	}
	if room, err := Room(dir); err != nil || room > left-reserve/2 {
		t.Errorf("room for %d bytes of %d, %v; %d are for others", room, left, err, reserve)
	}
}

// Where a swap file could be is found without a look at what may not answer, or at what
// lies behind it.
func TestADeadMountIsNotLookedAt(t *testing.T) {
	const of = " rw,relatime - "
	mounts, err := procfs.ParseMountInfo(strings.NewReader(
		"1 0 0:1 / /" + of + "overlay overlay rw\n" +
			"2 1 0:2 / /srv" + of + "nfs4 far:/ rw\n" +
			"3 2 8:1 / /srv/disk" + of + "ext4 /dev/sda1 rw\n" +
			"4 1 0:3 / /program" + of + "fuse.sshfs far: rw\n" +
			"5 1 8:2 / /covered" + of + "xfs /dev/sda2 rw\n" +
			"6 5 0:4 / /covered" + of + "fuse far: rw\n" +
			"7 1 0:5 / /run" + of + "tmpfs tmpfs rw\n" +
			"8 7 8:3 / /run/disk" + of + "ext4 /dev/sda3 rw\n" +
			"9 1 8:4 / /srvs" + of + "btrfs /dev/sda4 rw\n" +
			"10 1 8:5 / /readable ro - ext4 /dev/sda5 rw\n"))
	if err != nil {
		t.Fatal(err)
	}
	var looked []string
	choose := func(size int64) string {
		looked = nil
		return roomiest(mounts, size, func(point string) (fileSystem, space, error) {
			looked = append(looked, point)
			has := map[string]space{"/run/disk": {left: 100, reserve: 50}, "/srvs": {left: 90, reserve: 10}}
			return fileSystem{"ext4", reserved, ""}, has[point], nil
		})
	}
	if got := choose(60); got != "/srvs" || !slices.Equal(looked, []string{"/run/disk", "/srvs"}) {
		t.Errorf("%q is chosen, having looked at %q", got, looked)
	}
	if got := choose(85); got != "" {
		t.Errorf("%q is chosen, which has no such room beside its reserve", got)
	}
}
