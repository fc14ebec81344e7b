package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestASecondTakerIsToldWhoHasIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path, "process 12")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(path, "process 13")
	var held *Held
	if !errors.As(err, &held) || held.Holder != "process 12" {
		t.Fatalf("second Take: %v, want Held by process 12", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(path, "process 13")
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	defer again.Release()
	if text, _ := os.ReadFile(path); string(text) != "process 13\n" {
		t.Errorf("the file says %q", text)
	}
}

func TestWithoutAHolderTheContentsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Take(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if text, _ := os.ReadFile(path); string(text) != "kept" {
		t.Errorf("the file says %q", text)
	}
}
