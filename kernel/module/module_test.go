package module_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/module"
)

const virtioBlk = "license=GPL\x00description=Virtio block driver\x00alias=virtio:d00000002v*\x00" +
	"depends=virtio_ring,virtio\x00retpoline=Y\x00intree=Y\x00name=virtio_blk\x00" +
	"vermagic=6.1.0-56-cloud-amd64 SMP preempt mod_unload modversions \x00" +
	"softdep=pre: crc32c post: virtio-rng\x00parm=num_request_queues:Limit the number\x00\x00"

func TestParseInfo(t *testing.T) {
	info, err := module.ParseInfo([]byte(virtioBlk))
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "virtio_blk" || info.Release != "6.1.0-56-cloud-amd64" ||
		!slices.Equal(info.Depends, []string{"virtio_ring", "virtio"}) || !slices.Equal(info.Before, []string{"crc32c"}) {
		t.Errorf("%+v", info)
	}
	for _, bad := range []string{"", "depends=a\x00", "name=x\x00what is this\x00"} {
		if info, err := module.ParseInfo([]byte(bad)); err == nil {
			t.Errorf("%q was taken, as %+v", bad, info)
		}
	}
}

func TestName(t *testing.T) {
	for file, want := range map[string]string{
		"kernel/drivers/char/hw_random/virtio-rng.ko": "virtio_rng",
		"overlay.ko.xz": "overlay",
		"veth":          "veth",
	} {
		if got := module.Name(file); got != want {
			t.Errorf("%s is module %s, want %s", file, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	all := map[string]module.Info{
		"virtio_blk":  {Depends: []string{"virtio_ring", "virtio"}, Before: []string{"absent", "crc32c"}},
		"virtio_ring": {Depends: []string{"virtio"}},
		"virtio":      {},
		"crc32c":      {},
		"bridge":      {Depends: []string{"stp", "llc"}},
		"stp":         {Depends: []string{"llc"}},
		"llc":         {},
		"broken":      {Depends: []string{"nowhere"}},
		"chicken":     {Depends: []string{"egg"}},
		"egg":         {Depends: []string{"chicken"}},
		"soft":        {Before: []string{"softer"}}, "softer": {Before: []string{"soft"}},
	}
	got, err := module.Order(all, []string{"bridge", "virtio-blk", "virtio"})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range got {
		for _, needed := range all[name].Depends {
			if j := slices.Index(got, needed); j < 0 || j > i {
				t.Errorf("%v: %s needs %s before it", got, name, needed)
			}
		}
	}
	if want := 7; len(got) != want || slices.Index(got, "crc32c") > slices.Index(got, "virtio_blk") {
		t.Errorf("order %v", got)
	}
	var unmet *module.Unmet
	if _, err := module.Order(all, []string{"broken"}); !errors.As(err, &unmet) || unmet.Name != "nowhere" || unmet.By != "broken" {
		t.Errorf("%v", err)
	}
	if _, err := module.Order(all, []string{"none"}); !errors.As(err, &unmet) || unmet.By != "" {
		t.Errorf("%v", err)
	}
	if _, err := module.Order(all, []string{"chicken"}); err == nil || !strings.Contains(err.Error(), "chicken needs egg needs chicken") {
		t.Errorf("%v", err)
	}
	// What is asked for softly does not make a circle.
	if got, err := module.Order(all, []string{"soft"}); err != nil || !slices.Equal(got, []string{"softer", "soft"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// A file that is no module is refused, whatever it is.
func TestReadRefuses(t *testing.T) {
	for name, content := range map[string][]byte{"text": []byte("#!/bin/sh\n"), "empty": nil, "this program": nil} {
		file := filepath.Join(t.TempDir(), "x.ko")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if name == "this program" {
			file, _ = os.Executable()
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if info, err := module.Read(f); err == nil {
			t.Errorf("%s was taken for the module %+v", name, info)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.ko")
	if err := module.Load(file, ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add([]byte(virtioBlk))
	f.Add([]byte("name=x\x00softdep=pre: \x00depends=,,\x00"))
	f.Fuzz(func(t *testing.T, section []byte) {
		info, err := module.ParseInfo(section)
		if err == nil && info.Name == "" {
			t.Error("a module without a name")
		}
		if _, err := module.Order(map[string]module.Info{info.Name: info}, []string{info.Name}); err == nil && len(info.Depends) > 0 && slices.ContainsFunc(info.Depends, func(n string) bool { return n != info.Name }) {
			t.Error("what it needs was not missed")
		}
	})
}
