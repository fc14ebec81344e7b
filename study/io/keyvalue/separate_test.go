package keyvalue

import (
	"math"
	"strings"
	"testing"

	"tare/platform"
	"tare/stats"
)

func near(e stats.Estimate, want, within float64) bool {
	return e.Known() && math.Abs(e.Value-want) <= within
}

// What was put into a run is what is found in it, each part under its own name.
func TestSeparation(t *testing.T) {
	is := truth{container: cost{request: 0.3}, bind: cost{request: 0.2}, network: cost{batch: 2, request: 0.5}, noise: 0.0005}
	r := read(is.run(designed(t, options())))
	all := r.separate("docker")
	if len(all) != 8 {
		t.Fatalf("%d cells are separated, want 8", len(all))
	}
	for i, s := range all {
		network := 2/float64(s.cell.pipeline) + 0.5
		// Noise is a part of a request's time.
		within := 0.002 * 1e6 / s.rate.Value
		for _, of := range []struct {
			name string
			got  stats.Estimate
			want float64
		}{
			{"container", s.container, 0.3}, {"volume", s.storage["volume"], 0}, {"bind", s.storage["bind"], 0.2}, {"network", s.network, network},
			{"interaction", s.interaction, 0}, {"whole", s.whole, 0.3 + 0.2/3 + network}, {"proxy", s.more[string(platform.NetworkProxy)], network},
			{"whole by its parts", stats.Estimate{Value: s.container.Value + s.stored.Value + s.network.Value, Interval: s.whole.Interval}, s.whole.Value},
		} {
			if !near(of.got, of.want, within) {
				t.Errorf("%s: %s is %+v, want %g", s.cell.name(), of.name, of.got, of.want)
			}
		}
		if s.reference != "layer" || len(s.storage) != 2 {
			t.Errorf("against %s: %v", s.reference, s.storage)
		}
		if i > 0 && s.rate.Value < all[i-1].rate.Value {
			t.Error("not by the rate")
		}
	}
	last := all[len(all)-1]
	if want := 0.7 / (0.3 + 0.2/3 + 0.7); !near(last.share, want, 0.05) || !(last.excess.Interval.Low > 0) {
		t.Errorf("the network's share is %+v, want %g, and it exceeds the rest: %+v", last.share, want, last.excess)
	}
	if text := networkPart(all); !strings.Contains(text, "On the bridge the network accounts for ") || !strings.Contains(text, " % (") {
		t.Errorf("%q does not give the network's share", text)
	}
	text := accounted(all)
	for _, want := range []string{"GET of 3 B, pipeline 10", "The network adds 0.", "A volume does not differ significantly from the layer", "A bind adds 0."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// Without a layer the first storage is what the others are against; without a bridge
// there is nothing to separate; a network that saves time has no share.
func TestSeparationOfLess(t *testing.T) {
	is := truth{container: cost{request: 0.3}, network: cost{request: -0.1}, noise: 0.0005}
	two := options(func(o *Options) { o.Storages = []platform.Storage{platform.StorageVolume, platform.StorageBind} })
	for _, s := range read(is.run(designed(t, two))).separate("docker") {
		if s.reference != "volume" || !s.network.Known() || s.share.Known() {
			t.Errorf("%s against %s: share %+v", s.cell.name(), s.reference, s.share)
		}
	}
	one := options(func(o *Options) { o.Storages = []platform.Storage{platform.StorageBind} })
	for _, s := range read(is.run(designed(t, one))).separate("docker") {
		if s.interaction.Known() || len(s.storage) != 0 || !s.container.Known() {
			t.Errorf("of one storage: %+v", s)
		}
	}
	host := options(func(o *Options) { o.Networks = []platform.Network{platform.NetworkHost} })
	if all := read(is.run(designed(t, host))).separate("docker"); len(all) != 0 {
		t.Errorf("%d cells of one network are separated", len(all))
	}
}
