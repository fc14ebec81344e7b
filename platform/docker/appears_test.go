package docker

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"tare/platform"
)

// A container that a killed tare has asked for appears after its ledger has been
// looked through.
func TestRemoveOfAContainerThatIsStillBeingMade(t *testing.T) {
	var looks atomic.Int32
	fault := map[string]func(http.ResponseWriter, *http.Request){}
	f, p, _ := newFakeEngine(t, fault)
	fault[stepInspect] = func(w http.ResponseWriter, r *http.Request) {
		if looks.Add(1) == 3 {
			f.mu.Lock()
			f.mark = "a-mark"
			delete(fault, stepInspect)
			f.mu.Unlock()
		}
		refuse(http.StatusNotFound, "No such container")(w, r)
	}
	entry := platform.Entry{Platform: Name, Kind: kindContainer, ID: "tare-fake", Attrs: map[string]string{labelLedger: "a-mark"}}
	if err := p.Remove(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	if asked := f.since(); !slices.Contains(asked, stepRemove) {
		t.Errorf("the container that appeared was not removed: %v", asked)
	}
}
