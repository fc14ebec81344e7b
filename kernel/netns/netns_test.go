package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/netns"
)

func TestFreeSubnet(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		used []netip.Prefix
		want netip.Prefix
	}{
		{nil, prefix("10.213.0.0/24")},
		{[]netip.Prefix{prefix("0.0.0.0/0")}, prefix("10.213.0.0/24")}, // a default route
		{[]netip.Prefix{prefix("10.213.0.0/25"), prefix("10.213.1.7/32")}, prefix("10.213.2.0/24")},
		{[]netip.Prefix{prefix("10.0.0.0/8")}, prefix("172.29.0.0/24")},
	} {
		if got, err := netns.FreeSubnet(test.used); got != test.want || err != nil {
			t.Errorf("beside %v: %v, %v; want %v", test.used, got, err, test.want)
		}
	}
	all := []netip.Prefix{prefix("10.0.0.0/8"), prefix("172.16.0.0/12"), prefix("192.168.0.0/16")}
	if got, err := netns.FreeSubnet(all); err == nil {
		t.Errorf("found %v where nothing is free", got)
	}
}

func FuzzFreeSubnet(f *testing.F) {
	f.Add(uint32(10<<24|213<<16), uint8(20))
	f.Fuzz(func(t *testing.T, base uint32, bits uint8) {
		addr := netip.AddrFrom4([4]byte{byte(base >> 24), byte(base >> 16), byte(base >> 8), byte(base)})
		used := netip.PrefixFrom(addr, int(bits%33)).Masked()
		got, err := netns.FreeSubnet([]netip.Prefix{used})
		if err != nil {
			t.Fatal(err)
		}
		if used.Bits() > 0 && got.Overlaps(used) {
			t.Errorf("%v overlaps %v", got, used)
		}
	})
}

func needRoot(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("making network namespaces needs root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	file := filepath.Join(t.TempDir(), "ns")
	needRoot(t, netns.Create(file))
	if err := netns.Create(file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made a second one at the same file: %v", err)
	}
	for range 2 {
		if err := netns.Delete(file); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", file, err)
	}
}

func TestBridge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network devices needs root")
	}
	file := filepath.Join(t.TempDir(), "ns")
	needRoot(t, netns.Create(file))
	defer func() {
		if err := netns.Delete(file); err != nil {
			t.Error(err)
		}
	}()
	used, err := netns.UsedSubnets()
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := netns.FreeSubnet(used)
	if err != nil {
		t.Skip(err)
	}
	bridge := netns.NewLink(fmt.Sprintf("taretest%d", os.Getpid()%10000))
	needRoot(t, netns.MakeBridge(bridge, subnet))
	defer func() {
		if err := bridge.Delete(); err != nil {
			t.Error(err)
		}
	}()
	found, its, ok, err := netns.FindBridge(bridge.Name)
	if found != bridge || its != subnet || !ok || err != nil {
		t.Errorf("found %v, %v, %v, %v; want %v, %v", found, its, ok, err, bridge, subnet)
	}
	if _, _, ok, err := netns.FindBridge("lo"); ok || !errors.Is(err, netns.ErrForeign) {
		t.Errorf("took lo for a bridge of ours (%v)", err)
	}
	port := netns.NewLink(fmt.Sprintf("tarepair%d", os.Getpid()%10000))
	if err := netns.Plug(port, bridge.Name, file, subnet, netns.Gateway(subnet).Next()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := port.Delete(); err != nil {
			t.Error(err)
		}
	}()

	for _, isUp := range []bool{false, true} {
		if err := port.SetUp(isUp); err != nil {
			t.Error(err)
		}
		device, err := net.InterfaceByName(port.Name)
		if err != nil || (device.Flags&net.FlagUp != 0) != isUp {
			t.Errorf("set up: %t; the device is %v, %v", isUp, device, err)
		}
	}
	if err := netns.NewLink(port.Name).SetUp(false); err == nil {
		t.Error("a device that only has the same name was brought down")
	}

	if err := bridge.DeleteIfUnused(); err != nil {
		t.Error(err)
	}
	if _, _, ok, _ := netns.FindBridge(bridge.Name); !ok {
		t.Fatal("a bridge in use was removed")
	}
	other := netns.NewLink(port.Name)
	if err := other.Delete(); err != nil {
		t.Error(err)
	}
	if there, err := netns.Exists(port.Name); !there || err != nil {
		t.Errorf("a device that only has the same name was removed (%v)", err)
	}
	if err := port.Delete(); err != nil {
		t.Error(err)
	}
	if err := bridge.DeleteIfUnused(); err != nil {
		t.Error(err)
	}
	if there, err := netns.Exists(bridge.Name); there || err != nil {
		t.Errorf("the bridge is left (%v)", err)
	}
}
