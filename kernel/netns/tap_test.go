package netns

import (
	"net/netip"
	"os"
	"slices"
	"testing"
)

func TestFreePairKeepsOffWhatIsUsed(t *testing.T) {
	host, other, err := FreePair([]netip.Prefix{netip.MustParsePrefix("10.213.0.0/24"), netip.MustParsePrefix("0.0.0.0/0")})
	if err != nil || host.String() != "10.213.1.1/30" || other.String() != "10.213.1.2/30" {
		t.Errorf("host %v, other %v, %v", host, other, err)
	}
	// A pair that is taken is passed by, and its neighbour is not.
	next, _, err := FreePair([]netip.Prefix{netip.MustParsePrefix("10.213.0.0/30")})
	if err != nil || next.String() != "10.213.0.5/30" {
		t.Errorf("%v, %v; want the next pair", next, err)
	}
	all := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}
	if host, _, err := FreePair(all); err == nil {
		t.Errorf("%v is given of none", host)
	}
}

func TestATapGoesWithItsFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network devices")
	}
	if _, err := os.Stat(tunDevice); err != nil {
		t.Skipf("this host makes no taps: %v", err)
	}
	used, err := UsedSubnets()
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := FreePair(used)
	if err != nil {
		t.Fatal(err)
	}
	link := NewLink("tare-test-tap")
	exists := func() bool {
		t.Helper()
		there, err := Exists(link.Name)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	tap, err := MakeTap(link, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tap.Close() })
	if used, err := UsedSubnets(); err != nil || !slices.Contains(used, host.Masked()) {
		t.Errorf("the host is in %v (%v), want %v among them", used, err, host.Masked())
	}
	if _, err := MakeTap(link, host); err == nil {
		t.Error("a name that is taken is taken again")
	}
	if err := tap.Close(); err != nil || exists() {
		t.Fatalf("closed (%v), and still there: %v", err, exists())
	}

	again, err := MakeTap(link, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	stranger := Link{link.Name, "02:00:00:00:00:01"}
	if err := stranger.Delete(); err != nil || !exists() {
		t.Errorf("removed by who has not made it (%v)", err)
	}
	if err := link.Delete(); err != nil || exists() {
		t.Errorf("removed (%v), and still there", err)
	}
}
