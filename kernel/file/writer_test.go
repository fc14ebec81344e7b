package file

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasWriter(t *testing.T) {
	writer, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(writer.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if has, err := HasWriter(reader); !has || err != nil {
		t.Errorf("open for writing: %v, %v", has, err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if has, err := HasWriter(reader); has || err != nil {
		t.Errorf("closed: %v, %v", has, err)
	}
	if _, err := HasWriter(writer); err == nil {
		t.Error("a file that is closed here was asked for")
	}
}
