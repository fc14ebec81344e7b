package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/socket"
	"tare/platform"
	"tare/platform/bare"
	"tare/record"
	"tare/workload"
)

// TestMain runs the tests, or is a process that bare metal is made by.
func TestMain(m *testing.M) {
	bare.Reexec()
	os.Exit(m.Run())
}

// Two instances of a service share the host's network, each answers at its own port, and
// neither on an address that others reach.
func TestInstancesBesideOneAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("makes images: not in short mode")
	}
	for _, name := range []string{"redis", "httpd"} {
		t.Run(name, func(t *testing.T) {
			w, err := workload.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			store, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
			if err != nil {
				t.Fatal(err)
			}
			img, err := store.Recipe(t.Context(), w.Source().Recipe)
			if missing := (*image.Missing)(nil); errors.As(err, &missing) {
				t.Skip(missing)
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			ledger, err := OpenLedger(filepath.Join(dir, "ledger"), "place-"+name)
			if err != nil {
				t.Fatal(err)
			}
			on := bare.New(bare.Options{StateDir: dir, Ledger: ledger})
			if err := on.Check(t.Context()); err != nil {
				t.Skip(err)
			}
			params, err := workload.Resolve(w, nil)
			if err != nil {
				t.Fatal(err)
			}
			first := socket.DrawPorts(2*workload.PlacePorts, rand.IntN, socket.PortFree)
			for _, port := range []int{first, first + workload.PlacePorts} {
				place := workload.Place{Port: port, Listen: ListensAt(on, platform.Setting{})}
				program, placed, err := ProgramAt(w, params, place)
				if err != nil {
					t.Fatal(err)
				}
				spec, err := SpecOf("place-"+name+"-"+strconv.Itoa(port), img, program, record.Condition{})
				if err != nil {
					t.Fatal(err)
				}
				tr := &trial{params: placed}
				spec.Stdout, spec.Stderr = &tr.out, &tr.err
				if tr.inst, err = on.Launch(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := tr.inst.Stop(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				}()
				if err := w.(workload.Readier).Ready(t.Context(), tr); err != nil {
					t.Fatalf("%v; it printed %s", err, tr.err.LastLine())
				}
			}
			for _, port := range []int{first, first + workload.PlacePorts} {
				for _, host := range hostAddresses(t) {
					at := net.JoinHostPort(host, strconv.Itoa(port))
					conn, err := net.DialTimeout("tcp", at, 5*time.Second)
					if err == nil {
						conn.Close()
					}
					if answers, loop := err == nil, host == loopback; answers != loop {
						t.Errorf("%s answers: %t (%v)", at, answers, err)
					}
				}
			}
		})
	}
}

// hostAddresses are this host's, loopback among them, but those of one link alone.
func hostAddresses(t *testing.T) (hosts []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if host, _, _ := strings.Cut(a.String(), "/"); !strings.HasPrefix(host, "fe80:") {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
