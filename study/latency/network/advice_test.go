package network

import (
	"slices"
	"testing"

	"tare/advise"
)

func TestAdvice(t *testing.T) {
	rules := func(m *made) []string {
		var all []string
		for _, a := range Advice(m.run) {
			if !a.Holds() {
				t.Errorf("%s rests on nothing", a.Rule)
			}
			all = append(all, a.Rule)
		}
		return all
	}
	anew := func(o *Options) { o.Connections = []string{New} }
	slower := cost{150, 0}
	for _, c := range []struct {
		name string
		m    *made
		want []string
	}{
		{"a fixed cost", makeRun(6).group(t, Receive, NAT, cost{15, 0}), []string{"batch-messages", "host-network"}},
		{"by the byte", makeRun(6).group(t, Receive, NAT, cost{0.5, 0.5}), nil},
		{"nothing", makeRun(6).group(t, Receive, NAT, cost{}), nil},
		{"the proxy", makeRun(6).group(t, Send, Proxy, cost{50, 0.1}), []string{"not-by-the-proxy"}},
		{"new connections", makeRun(6).group(t, Send, NAT, cost{}).group(t, Send, NAT, slower, anew), []string{"keep-connections"}},
		{"one block", makeRun(1).group(t, Receive, NAT, cost{15, 0}), nil},
	} {
		if got := rules(c.m); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if part := advise.Part(Advice(makeRun(6).group(t, Receive, NAT, cost{15, 0}).run)); len(part) != 1 {
		t.Errorf("%d parts", len(part))
	}
}
