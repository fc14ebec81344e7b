package workload

import (
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, w := range All() {
		found, err := Lookup(w.Name())
		if err != nil || found.Name() != w.Name() {
			t.Errorf("Lookup(%q): %v, %v", w.Name(), found, err)
		}
	}
	_, err := Lookup("rediss")
	refusedAs[*Unknown](t, err, `did you mean redis?`)
	_, err = Lookup("ff")
	refusedAs[*Unknown](t, err, "did you mean ffmpeg?")
	_, err = Lookup("postgresql")
	refusedAs[*Unknown](t, err, "redis, httpd, docstore, multimodel, wordpress, booking, cassandra, mapstore, thrift, stream, stream-mpi, stream-peer, ffmpeg, uri-parser, hashing, pagerank, fio, fio-sync, haccio, fio-checkpoint, mpi-search, mpi-primes, static, heap, files, matrix, empty", "--workload")
}

func TestResolve(t *testing.T) {
	w := redis{}
	p := resolve(t, w, "payload", "1000")
	if p["payload"] != "1000" || p["clients"] != "50" || len(p) != len(w.Params()) {
		t.Errorf("resolved %v", p)
	}
	_, err := Resolve(w, map[string]string{"payloda": "3"})
	refusedAs[*UnknownParam](t, err, "did you mean payload?")
	_, err = Resolve(w, map[string]string{"zzz": "3"})
	refusedAs[*UnknownParam](t, err, "io-threads", "appendonly")
	_, err = Resolve(FromCommand(Program{Args: []string{"true"}}, Source{}), map[string]string{"n": "1"})
	refusedAs[*UnknownParam](t, err, "it has none")
}

func TestWrongValuesAreRefused(t *testing.T) {
	for _, c := range []struct {
		w           Workload
		name, value string
		want        string
	}{
		{redis{}, "payload", "0", "from 1 to"},
		{redis{}, "payload", "1k", "whole number"},
		{redis{}, "clients", "100000", "to 5000"},
		{redis{}, "commands", "get,fly", "lrange_100"},
		{redis{}, "commands", "", "get"},
		{redis{}, "commands", "get,GET", "once"},
		{redis{}, "requests", "few", "auto"},
		{redis{}, "appendonly", "yes", "everysec"},
		{stream{}, "elements", "-1", "auto"},
		{stream{}, "repetitions", "1", "from 2"},
		{stream{}, "stores", "loud", "streaming"},
		{ffmpeg{}, "clip", "clip.mp4", "absolute"},
		{ffmpeg{}, "preset", "quick", "ultrafast"},
		{ffmpeg{}, "threads", "-2", "from 0"},
		{ffmpeg{}, "codec", "av1", "libx265"},
		{httpd{}, "data", "65", "to 64"},
		{httpd{}, "connection", "both", "kept"},
		{httpd{}, "access-log", "yes", "off"},
		{httpd{}, "rate", "0", "closed"},
		{httpd{}, "rate", "NaN", "closed"},
		{httpd{}, "connections", "0", "from 1"},
		{httpd{}, "duration", "1", "a duration"},
		{httpd{}, "warmup", "-1s", "from 0s"},
		{docstore{}, "documents", "0", "from 1"},
		{docstore{}, "reads", "101", "to 100"},
		{docstore{}, "storage", "disk", "mapped"},
		{docstore{}, "server", "mongo", "image"},
		{docstore{}, "data", "4097", "to 4096"},
		{redis{}, "data", "-1", "from 0"},
		{redis{}, "reads", "101", "to 100"},
		{redis{}, "rate", "fast", "closed"},
		{docstore{}, "heap", "1g", "auto"},
		{docstore{}, "rate", "fast", "closed"},
		{uriParser, "data", "4096", "to 4095"},
		{hashing, "access", "some", "sparse"},
		{empty{}, "until", "never", "exit"},
	} {
		_, err := Resolve(c.w, map[string]string{c.name: c.value})
		refusedAs[*WrongValue](t, err, c.name+"="+c.value, c.want)
	}
}

// What every workload keeps, whatever it is.
func TestShippedWorkloadsAreWhole(t *testing.T) {
	for _, w := range All() {
		p := resolve(t, w)
		program, err := w.Program(p)
		if err != nil {
			t.Fatal(err)
		}
		if w.Source().Recipe == "" || w.Summary() == "" || len(program.Args) == 0 || program.MemoryNeed <= 0 {
			t.Errorf("%s: source %+v, summary %q, program %+v", w.Name(), w.Source(), w.Summary(), program)
		}
		metrics := w.Metrics(p)
		if len(metrics) == 0 || !metrics[0].Primary {
			t.Errorf("%s: the first metric is not primary", w.Name())
		}
		var names []string
		for _, m := range metrics {
			if m.Unit == "" || m.Doc == "" || m.Better != Higher && m.Better != Lower || slices.Contains(names, m.Name) {
				t.Errorf("%s: metric %+v", w.Name(), m)
			}
			names = append(names, m.Name)
		}
		for _, param := range w.Params() {
			if param.Doc == "" || strings.Contains(param.Doc, "RANGE") {
				t.Errorf("%s: parameter %s says of itself %q", w.Name(), param.Name, param.Doc)
			}
		}
	}
}
