package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// member is a file of an archive, as it is read back.
type member struct {
	name         string
	mode         uint32
	major, minor uint32
	content      string
}

// unpack reads an archive by the format's document, independently of how it is written.
func unpack(t *testing.T, data []byte) []member {
	t.Helper()
	var all []member
	inodes := map[uint64]bool{}
	for at := 0; ; {
		if len(data) < at+110 || string(data[at:at+6]) != "070701" {
			t.Fatalf("no header at byte %d", at)
		}
		field := func(i int) uint64 {
			v, err := strconv.ParseUint(string(data[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		size, nameSize := int(field(6)), int(field(11))
		name := string(data[at+110 : at+110+nameSize-1])
		if data[at+110+nameSize-1] != 0 {
			t.Fatalf("%q does not end in a null byte", name)
		}
		if field(2) != 0 || field(3) != 0 || field(5) != 0 {
			t.Errorf("%s: owner %d:%d, time %d", name, field(2), field(3), field(5))
		}
		body := (at + 110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			return all
		}
		if inodes[field(0)] {
			t.Errorf("%s has the inode of another, and would be a hard link", name)
		}
		inodes[field(0)] = true
		all = append(all, member{name, uint32(field(1)), uint32(field(9)), uint32(field(10)), string(data[body : body+size])})
		at = (body + size + 3) &^ 3
	}
}

func TestArchive(t *testing.T) {
	var out bytes.Buffer
	a := archive{w: &out}
	a.directory("/dev", 0o755)
	a.device("dev/console", 0o600, 5, 1)
	var want []member
	want = append(want, member{"dev", 0o040755, 0, 0, ""}, member{"dev/console", 0o020600, 5, 1, ""})
	// Every remainder of a file's and of a name's length by four.
	for i := range 9 {
		name, content := strings.Repeat("n", i+1), strings.Repeat("x", i)
		a.file(name, 0o755, int64(i), strings.NewReader(content))
		want = append(want, member{name, 0o100755, 0, 0, content})
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, out.Bytes()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestArchiveFails(t *testing.T) {
	broken := errors.New("broken")
	for name, write := range map[string]func(a *archive){
		"a file that is shorter than it said": func(a *archive) { a.file("x", 0o644, 5, strings.NewReader("1234")) },
		"a file that cannot be read":          func(a *archive) { a.file("x", 0o644, 5, iotest.ErrReader(broken)) },
		"a file too large for the format":     func(a *archive) { a.file("x", 0o644, 1<<32, strings.NewReader("")) },
	} {
		a := archive{w: io.Discard}
		write(&a)
		a.directory("later", 0o755)
		if err := a.end(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add("name", []byte("content"))
	f.Add("/a/b", []byte{})
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		name = strings.TrimPrefix(strings.ReplaceAll(name, "\x00", ""), "/")
		if name == "" || strings.HasPrefix(name, "TRAILER!!!") || strings.HasPrefix(name, "/") {
			t.Skip()
		}
		var out bytes.Buffer
		a := archive{w: &out}
		a.file(name, 0o644, int64(len(content)), bytes.NewReader(content))
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		if got := unpack(t, out.Bytes()); len(got) != 1 || got[0].name != name || got[0].content != string(content) {
			t.Errorf("%q came back as %v", name, got)
		}
	})
}
