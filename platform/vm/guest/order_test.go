package guest

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

var whole = Order{
	Channel: "virtio:tare", Address: netip.MustParsePrefix("10.213.7.2/30"), Gateway: netip.MustParseAddr("10.213.7.1"),
	MAC: "52:54:00:12:34:56", Hostname: "tare", Version: "v1.2-3-gabc", Scratch: "virtio:tare-scratch",
}

func TestOrder(t *testing.T) {
	for _, o := range []Order{
		whole,
		{Channel: "virtio:tare"},
		{Run: &Run{Device: "virtio:program", Args: []string{"/run/tare/program/x", "two words"}, Dir: "/", Env: []string{"A=b"}}},
	} {
		word, err := o.Argument()
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(word, " \"'\n") {
			t.Errorf("a kernel would take %q apart", word)
		}
		got, err := ParseOrder([]byte("console=ttyS0 quiet " + word + " panic=-1\n"))
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%+v came back as %+v, %v", o, got, err)
		}
	}
}

func TestOrderRefused(t *testing.T) {
	for name, change := range map[string]func(*Order){
		"no channel":             func(o *Order) { o.Channel = "" },
		"a channel of no kind":   func(o *Order) { o.Channel = "tcp:80" },
		"a channel of no name":   func(o *Order) { o.Channel = "virtio:" },
		"a serial line":          func(o *Order) { o.Channel = "tty:/dev/ttyS0" },
		"a channel elsewhere":    func(o *Order) { o.Channel = "virtio:../etc/passwd" },
		"a gateway elsewhere":    func(o *Order) { o.Gateway = netip.MustParseAddr("10.0.0.1") },
		"a gateway alone":        func(o *Order) { o.Address = netip.Prefix{} },
		"a MAC that is none":     func(o *Order) { o.MAC = "52:54" },
		"a name that is none":    func(o *Order) { o.Hostname = "-" },
		"a disk that is none":    func(o *Order) { o.Scratch = "/dev/vda" },
		"a disk by its place":    func(o *Order) { o.Scratch = "ubd:1" },
		"a program that is none": func(o *Order) { o.Run = &Run{Device: "virtio:program"} },
		"a program on no disk":   func(o *Order) { o.Run = &Run{Args: []string{"x"}} },
		"more than a line holds": func(o *Order) { o.Version = strings.Repeat("v", maxArgument) },
	} {
		o := whole
		change(&o)
		if word, err := o.Argument(); err == nil {
			t.Errorf("%s: taken, as %s", name, word)
		}
	}
}

func TestParseOrderRefuses(t *testing.T) {
	word, err := whole.Argument()
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(text string) string { return argument + base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, line := range map[string]string{
		"torn":              word[:len(word)-3] + "=",
		"two":               word + " " + word,
		"of another tare":   encoded(`{"channel":"virtio:x","colour":"red"}`),
		"with a tail":       encoded(`{"channel":"virtio:x"} {}`),
		"that asks nothing": encoded(`{}`),
	} {
		if o, err := ParseOrder([]byte(line)); err == nil || errors.Is(err, ErrNoOrder) {
			t.Errorf("an order %s: %+v, %v", name, o, err)
		}
	}
	if _, err := ParseOrder([]byte("quiet root=/dev/vda")); !errors.Is(err, ErrNoOrder) {
		t.Errorf("%v, want ErrNoOrder", err)
	}
}

func TestDevice(t *testing.T) {
	name := Device(RootSerial)
	if got, err := parseDevice(name); err != nil || got.serial != RootSerial || got.String() != name {
		t.Errorf("%s is %+v, %v", name, got, err)
	}
	for _, bad := range []string{"", "virtio:", "virtio:" + strings.Repeat("x", 21), "virtio:a/b", "ubd:1", "/dev/vda"} {
		if d, err := parseDevice(bad); err == nil {
			t.Errorf("%q is %+v", bad, d)
		}
	}
	a, b := SerialOf("sha256:a"), SerialOf("sha256:b")
	if _, err := parseDevice("virtio:" + a); err != nil || a == b || a[0] < 'a' || a[0] > 'z' {
		t.Errorf("serials %s and %s, %v", a, b, err)
	}
}

func FuzzParseOrder(f *testing.F) {
	word, err := whole.Argument()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(word))
	f.Add([]byte("quiet " + argument + " x"))
	f.Fuzz(func(t *testing.T, line []byte) {
		o, err := ParseOrder(line)
		if err != nil {
			return
		}
		if err := o.check(); err != nil {
			t.Errorf("taken, and refused: %v", err)
		}
	})
}
