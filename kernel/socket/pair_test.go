package socket

import (
	"io"
	"testing"
)

func TestAPairCarriesBothWaysAndEnds(t *testing.T) {
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := ours.Write([]byte("there")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(theirs, got); err != nil || string(got) != "there" {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := theirs.Write([]byte("back")); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(ours); err != nil || string(all) != "back" {
		t.Errorf("read %q, %v; want what was written, and the end", all, err)
	}
}
