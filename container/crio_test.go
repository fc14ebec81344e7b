package container

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// crio answers for one container, as in testdata/crio.json, which has the form that CRI-O's sources
// give it (ContainerInfo in pkg/types). Of all others it
// answers as CRI-O does of a container that it does not know.
func crio(t *testing.T, id string, answer func(w http.ResponseWriter)) string {
	t.Helper()
	socket, listener := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/containers/"+id {
			http.Error(w, fmt.Sprintf("can't find the container with id %s", r.URL.Path), http.StatusNotFound)
			return
		}
		answer(w)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return socket
}

func TestCRIO(t *testing.T) {
	example, err := os.ReadFile("testdata/crio.json")
	if err != nil {
		t.Fatal(err)
	}
	pod := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15.slice/"
	h := newHost(t, unified, pod+"crio-"+hexA+".scope/container 100 101\n"+pod+"crio-"+hexB+".scope 200\n"+pod+"crio-conmon-"+hexA+".scope 90")
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   []string
		note   string
	}{
		{"as CRI-O answers", func(w http.ResponseWriter) { _, _ = w.Write(example) }, []string{"kubernetes " + short(hexB), "kubernetes shop/cart-7f9/app"}, ""},
		{"garbage", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, []string{"kubernetes " + short(hexA), "kubernetes " + short(hexB)}, "answers with an error: container " + short(hexA)},
		{"no end", func(w http.ResponseWriter) {
			for _, err := w.Write(make([]byte, 1<<20)); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		}, []string{"kubernetes " + short(hexA), "kubernetes " + short(hexB)}, "a reply of more than 16384 KiB"},
		{"refusal", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, []string{"kubernetes " + short(hexA), "kubernetes " + short(hexB)}, "HTTP status 418"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := h.finder()
			f.crio, f.patience = []string{crio(t, hexA, c.answer)}, time.Minute
			all, notes, err := f.All(t.Context())
			if got := names(all); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
				t.Errorf("found %q (%v), want %q", got, err, c.want)
			}
			if c.note == "" && len(notes) > 0 || c.note != "" && (len(notes) != 1 || !strings.Contains(notes[0].String(), c.note)) {
				t.Errorf("the notes are %v, want %q", notes, c.note)
			}
		})
	}
}

func TestCRIOThatHangs(t *testing.T) {
	h := newHost(t, unified, "/kubepods/pod"+uid+"/crio-"+hexA+" 100")
	ended := make(chan struct{})
	f := h.finder()
	f.crio, f.patience = []string{crio(t, hexA, func(http.ResponseWriter) { <-ended })}, 50*time.Millisecond
	all, notes, err := f.All(t.Context())
	close(ended)
	if err != nil || len(all) != 1 || len(notes) != 1 || !strings.Contains(notes[0].String(), "crio at "+f.crio[0]+" has not answered for 50ms") {
		t.Errorf("found %+v, %v (%v), want the one that has a group, and a note", all, notes, err)
	}
}

func FuzzCRIO(f *testing.F) {
	example, err := os.ReadFile("testdata/crio.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(`{"pid": -1}`))
	f.Add([]byte(`{"labels": {"io.kubernetes.pod.name": ""}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseCRIO(b, hexA); err == nil && (c.Name == "" || c.PID < 0) {
			t.Errorf("%q is read as %+v", b, c)
		}
	})
}
