package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"tare/image"
	"tare/lab/labtest"
	"tare/platform"
	metal "tare/platform/bare"
	engines "tare/platform/docker"
	"tare/study/kit"
)

func TestMain(m *testing.M) {
	metal.Reexec()
	os.Exit(m.Run())
}

// notebook is a ledger in memory.
type notebook struct {
	mu   sync.Mutex
	open []platform.Entry
}

func (n *notebook) Add(e platform.Entry) (func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, e)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.open = slices.DeleteFunc(n.open, func(other platform.Entry) bool { return other.Kind == e.Kind && other.ID == e.ID })
	}, nil
}

// imaged is a bench with an image of its own.
type imaged struct {
	*labtest.Bench
	img image.Image
}

func (b imaged) Image() image.Image { return b.img }

// Every condition of a small design, once, on the engine of this host and on bare
// metal.
func TestOnAnEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("loads images in layers: left out by -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	ledger, state := &notebook{}, t.TempDir()
	engineHere := engines.New(engines.Options{StateDir: state, Ledger: ledger})
	if err := engineHere.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	store, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := store.Recipe(t.Context(), "files")
	if missing := new(image.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]platform.Platform{engine: engineHere, bare: metal.New(metal.Options{StateDir: state, Ledger: ledger})}
	t.Cleanup(func() {
		for name, p := range on {
			if err := p.Release(context.Background()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(ledger.open) > 0 {
			t.Errorf("left: %+v", ledger.open)
		}
	})
	o := Quick()
	o.Layers, o.Sizes, o.Writes, o.Syncs, o.Opens, o.Creates, o.Walks = []int{1, 3}, []int64{1 << 10, 100 << 10}, 20, 3, 20, 20, 10
	o.Plan.Blocks = 1
	o.Host = kit.Host{Platform: func(name string) (platform.Platform, error) { return on[name], nil }, Check: func(p platform.Platform) error { return p.Check(t.Context()) }}
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]map[string]float64{}
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			img := base
			if c.Source.Layers > 1 {
				if img, err = store.Layered(t.Context(), base, c.Source.Repeated, c.Source.Layers); err != nil {
					t.Fatal(err)
				}
			}
			if err := on[c.Platform].Prepare(t.Context(), img); err != nil {
				t.Fatal(err)
			}
			b := imaged{labtest.NewBench(on[c.Platform]), img}
			b.Of = c.Condition
			if err := c.Procedure(t.Context(), b); err != nil {
				t.Errorf("%s: %v", c.ID, err)
				continue
			}
			values[c.ID] = map[string]float64{}
			for _, m := range c.Metrics {
				if m.Histogram != "" {
					continue
				}
				if len(b.Samples[m.Name]) != 1 || b.Samples[m.Name][0] <= 0 {
					t.Errorf("%s: %s is %v", c.ID, m.Name, b.Samples[m.Name])
					continue
				}
				values[c.ID][m.Name] = b.Samples[m.Name][0]
			}
			if isFlat(c.Condition) && (b.Covariates[layersBefore] != float64(layers(c.Condition)) || b.Covariates[layersAfter] != 1) {
				t.Errorf("%s: %g layers became %g", c.ID, b.Covariates[layersBefore], b.Covariates[layersAfter])
			}
		}
	}
	// Megabytes are copied in the first opening, and no more in the second.
	up := values["files[copyup]@docker layer"]
	if l, err := engineHere.Layering(t.Context()); err == nil && l.Backing == "extfs" && up[firstOpen+"-16m"] < 4*up[secondOpen+"-16m"] {
		t.Errorf("a file of 16 MB is opened for writing in %g ns first, and %g then", up[firstOpen+"-16m"], up[secondOpen+"-16m"])
	}
}
