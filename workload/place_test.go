package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every service that we ship can be placed: its command has the port and the address, the
// port is the one that it serves, and its parameters stay as they were.
func TestAt(t *testing.T) {
	for _, w := range All() {
		p := resolve(t, w)
		usual, err := w.Program(p)
		if err != nil {
			t.Fatal(err)
		}
		if !Places(w) {
			if len(usual.Ports) > 0 {
				t.Errorf("%s serves %v, and cannot be placed", w.Name(), usual.Ports)
			}
			continue
		}
		before := maps.Clone(p)
		program, placed, err := At(w, p, Place{Port: 23450, Listen: "127.0.0.9"})
		if err != nil {
			t.Errorf("%s: %v", w.Name(), err)
			continue
		}
		if !maps.Equal(p, before) {
			t.Errorf("%s: its parameters were changed to %v", w.Name(), p)
		}
		said := strings.Join(slices.Concat(program.Args, program.Env), " ")
		for _, want := range []string{"23450", "127.0.0.9"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q does not say %s", w.Name(), said, want)
			}
		}
		if strings.Contains(said, everywhere) {
			t.Errorf("%s: %q listens everywhere", w.Name(), said)
		}
		if !slices.Equal(program.Ports, []int{23450}) {
			t.Errorf("%s serves %v", w.Name(), program.Ports)
		}
		if again, err := w.Program(placed); err != nil || !slices.Equal(again.Args, program.Args) {
			t.Errorf("%s: its placed parameters make %q, %v", w.Name(), again.Args, err)
		}
		// Without an address it listens everywhere, and without a port at its own.
		for _, place := range []Place{{}, {Listen: "0.0.0.0"}} {
			if at, _, err := At(w, p, place); err != nil || !slices.Equal(at.Args, usual.Args) || !slices.Equal(at.Ports, usual.Ports) {
				t.Errorf("%s at %+v: %q, %v, want %q", w.Name(), place, at.Args, err, usual.Args)
			}
		}
	}
}

func TestAtRefuses(t *testing.T) {
	p := resolve(t, redis{})
	for want, place := range map[string]Place{
		"1 to 65533":     {Port: 65534},
		"port -1":        {Port: -1},
		`"localhost"`:    {Listen: "localhost"},
		`"::1" of`:       {Listen: "::1"},
		`such as 127.0.`: {Listen: "127.0.0.1:80"},
	} {
		if _, _, err := At(redis{}, p, place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", place, err, want)
		}
	}
	_, _, err := At(ffmpeg{}, resolve(t, ffmpeg{}), Place{Port: 7})
	refusedAs[*Unplaceable](t, err, "workload ffmpeg", "takes no address to listen at")
	if _, _, err := At(ffmpeg{}, resolve(t, ffmpeg{}), Place{}); err != nil {
		t.Error(err)
	}
}

const placedFile = `
name: shop
image: {recipe: busybox}
kind: service
ports: [8080, 8081]
command: [/bin/serve, --at, "${listen}:${port}", --literal, "$${port}"]
env: {METRICS: "${listen}:${port:8081}"}
ready: {http: {port: 8081, path: "/at/${port}/${host:8081}"}}
load: {http: {rate: closed, count: 1}}
`

// A service from a file listens where it is asked to, if the file passes that on, and is
// looked for there.
func TestAtFromYAML(t *testing.T) {
	w := parse(t, placedFile)
	for _, c := range []struct {
		place Place
		args  []string
		env   string
		ports []int
	}{
		{Place{}, []string{"/bin/serve", "--at", "0.0.0.0:8080", "--literal", "${port}"}, "METRICS=0.0.0.0:8081", []int{8080, 8081}},
		{Place{Port: 7000, Listen: "127.0.0.1"}, []string{"/bin/serve", "--at", "127.0.0.1:7000", "--literal", "${port}"}, "METRICS=127.0.0.1:7001", []int{7000, 7001}},
	} {
		program, placed, err := At(w, resolve(t, w), c.place)
		if err != nil || !slices.Equal(program.Args, c.args) || !slices.Equal(program.Env, []string{c.env}) || !slices.Equal(program.Ports, c.ports) {
			t.Errorf("%+v: %+v, %v", c.place, program, err)
			continue
		}
		asked := map[int]bool{}
		address := func(port int) string { asked[port] = true; return "10.0.0.7:" + strconv.Itoa(10_000+port) }
		served := w.(customLoader)
		ready, err := served.ready.compile(served.outside(placed, address))
		if want := fmt.Sprintf("http://10.0.0.7:%d/at/%d/10.0.0.7 answers rightly", 10_000+c.ports[1], 10_000+c.ports[0]); err != nil || ready.what != want {
			t.Errorf("%+v: waits until %q, %v, want %q", c.place, ready.what, err, want)
		}
		if !asked[c.ports[0]] || !asked[c.ports[1]] || len(asked) != 2 {
			t.Errorf("%+v: the addresses of %v were asked for", c.place, asked)
		}
	}
}

func TestUnplaceableFromYAML(t *testing.T) {
	without := func(texts ...string) string {
		text := placedFile
		for _, part := range texts {
			text = strings.ReplaceAll(text, part, "x")
		}
		return text
	}
	for _, c := range []struct {
		file  string
		place Place
		want  string // empty: it can be placed
	}{
		{placedFile, Place{Port: 7000, Listen: "127.0.0.1"}, ""},
		{without("${listen}"), Place{Port: 7000}, ""},
		{without("${listen}"), Place{Listen: "127.0.0.1"}, "${listen}"},
		{without("${port:8081}"), Place{Listen: "127.0.0.1"}, ""},
		{without("${port:8081}"), Place{Port: 7000}, "${port:8081}"},
		{strings.Replace(placedFile, `:${port}"`, `:8080"`, 1), Place{Port: 7000}, "${port:8080}"},
		{strings.Replace(placedFile, "kind:", "params: [{name: listen, default: here}]\nkind:", 1), Place{Listen: "127.0.0.1"}, "${listen}"},
		{strings.Replace(placedFile, "8081]", "8081, 8082, 8083]", 1), Place{Port: 7000}, "4 ports"},
		{batchFile, Place{Listen: "127.0.0.1"}, "0 ports"},
	} {
		w := parse(t, c.file)
		_, _, err := At(w, resolve(t, w), c.place)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v in %s", c.place, err, c.file)
			}
			continue
		}
		refusedAs[*Unplaceable](t, err, c.want)
	}
	for name, w := range map[string]Workload{
		"a command":  FromCommand(Program{Args: []string{"/bin/serve"}, Ports: []int{80}, Service: true}, Source{}),
		"an image's": docstore{},
	} {
		p := resolve(t, w)
		if _, has := p["server"]; has {
			p["server"] = serverImage
		}
		if _, _, err := At(w, p, Place{Listen: "127.0.0.1"}); err == nil {
			t.Errorf("%s was given a place to listen", name)
		}
	}
}
