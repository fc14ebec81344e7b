package faults

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

// The committed object is of the committed source: whoever changes one has to
// make the other anew, which is ./generate.sh.
func TestObjectIsOfItsSource(t *testing.T) {
	source, err := os.ReadFile("bpf/faults.c")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(source)
	if got := hex.EncodeToString(sum[:]); got != sourceSHA256 {
		t.Errorf("bpf/faults.c has SHA-256 %s, the object was compiled from %s: run ./generate.sh", got, sourceSHA256)
	}
}
