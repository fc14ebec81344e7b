package image

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const someSum = "3d3fdbe91d4660c873e14b092c213fe81c1da6362daa236eb25d0171eb108744"

func TestParseLock(t *testing.T) {
	text := "# made by a tool\n\nzlib1g 1:1.2.13 " + someSum + "\nwithout perl\n  libc6 2.36-9+deb12u14 " + someSum + "\n"
	l, err := ParseLock(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"libc6 2.36-9+deb12u14", "zlib1g 1:1.2.13"}; !slices.Equal(l.names(), want) {
		t.Errorf("packages %q, want %q", l.names(), want)
	}
	if want := []string{"perl"}; !slices.Equal(l.Without, want) {
		t.Errorf("without %q, want %q", l.Without, want)
	}
	l, err = ParseLock(strings.NewReader("jar org.x:b 1.0.Final " + someSum + "\nlibc6 1 " + someSum + "\njar org.x:a 2 " + someSum + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"libc6 1", "org.x:a 2", "org.x:b 1.0.Final"}; !slices.Equal(l.names(), want) {
		t.Errorf("names %q, want %q", l.names(), want)
	}
	for text, want := range map[string]string{
		"jar org.x 1 " + someSum:                "GROUP:ARTIFACT",
		"jar org.x:../a 1 " + someSum:           "GROUP:ARTIFACT",
		"jar org.x:a ../1 " + someSum:           "GROUP:ARTIFACT",
		"jar -Dx:a 1 " + someSum:                "GROUP:ARTIFACT",
		"jar org.x:a: 1 " + someSum:             "colon",
		"jar org.x:a:../l 1 " + someSum:         "CLASSIFIER",
		"jar a:b 1 " + someSum[1:]:              "SHA-256",
		"jar a:b 1 " + someSum + " more":        "want NAME",
		"libc6":                                 "line 1",
		"libc6 1":                               "line 1",
		"\n\nlibc6 1 abc":                       "line 3",
		"Libc6 1 " + someSum:                    "name",
		"libc6 1;rm " + someSum:                 "version",
		"-o 1 " + someSum:                       "name",
		"without --yes":                         "name",
		"a0 1 " + someSum + "\nwithout a0":      "twice",
		"a0 1 " + strings.ToUpper(someSum):      "SHA-256",
		"a0 1 " + someSum + " more":             "want NAME",
		strings.Repeat("x", 100_000) + " 1 2\n": "too long",
	} {
		if _, err := ParseLock(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want something about %q", text, err, want)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte("libc6 2.36-9 " + someSum + "\nwithout perl\n# end\n"))
	f.Add([]byte("without without\n"))
	f.Add([]byte("jar org.x:a:linux-x86_64 1.0.Final " + someSum + "\n"))
	f.Add([]byte("jar org.x:a 1.0.Final " + someSum + "\njar 1 " + someSum + "\n"))
	f.Add([]byte("npm send/node_modules/@a/b 1.0.0-rc.1 " + someSum + "\nnpm 1.0 " + someSum + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock(bytes.NewReader(data))
		if err != nil {
			return
		}
		text := l.Format("r", "a")
		again, err := ParseLock(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, text)
		}
		if !bytes.Equal(again.Format("r", "a"), text) {
			t.Fatalf("read back differently:\n%s", text)
		}
		// These become names of files.
		for _, j := range l.Jars {
			if strings.ContainsAny(j.file(), "/ \n") || strings.HasPrefix(j.file(), ".") || strings.Contains(j.Group, "/") {
				t.Fatalf("archive %q of %q", j.file(), j.Group)
			}
		}
		// These become arguments of apt: none may pass for an option.
		for _, p := range l.Packages {
			if arg := p.Name + "=" + p.Version; strings.HasPrefix(arg, "-") || strings.ContainsAny(arg, " \t\n/") {
				t.Fatalf("argument %q", arg)
			}
		}
	})
}

const someIndex = `Package: libc6
Version: 2.36-9
Architecture: amd64
Description: C library
 with a second line
SHA256: ` + someSum + `

# a comment
Package: libc6
Version: 2.36-9
Architecture: i386
SHA256: 0000000000000000000000000000000000000000000000000000000000000000

package: adduser
VERSION: 3.134
Architecture: all
SHA256: ` + someSum + `
`

func TestPackageSums(t *testing.T) {
	sums, err := packageSums(strings.NewReader(someIndex), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != 2 || sums["libc6 2.36-9"] != someSum || sums["adduser 3.134"] != someSum {
		t.Errorf("got %v", sums)
	}
}

func TestReadStanzas(t *testing.T) {
	var got []stanza
	err := readStanzas(strings.NewReader(someIndex), func(s stanza) error {
		got = append(got, s)
		return nil
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%d paragraphs, %v", len(got), err)
	}
	if d := got[0]["description"]; d != "C library\nwith a second line" {
		t.Errorf("description %q", d)
	}
	for text, want := range map[string]string{
		" continued":         "line 1",
		"A: 1\nno field\n":   "line 2",
		"A: 1\nA: 2\n":       "twice",
		"A: 1\n\n continued": "line 3",
	} {
		if err := readStanzas(strings.NewReader(text), func(stanza) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %q", text, err, want)
		}
	}
	stop := errors.New("enough")
	if err := readStanzas(strings.NewReader(someIndex), func(stanza) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the reader's own error", err)
	}
}

func FuzzReadStanzas(f *testing.F) {
	f.Add([]byte(someIndex))
	f.Add([]byte("A:\n b\n\tc\r\n\n\nB:x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = readStanzas(bytes.NewReader(data), func(s stanza) error {
			if len(s) == 0 {
				t.Fatal("an empty paragraph")
			}
			for name := range s {
				if name != strings.ToLower(name) || name == "" {
					t.Fatalf("field %q", name)
				}
			}
			return nil
		})
		sums, err := packageSums(bytes.NewReader(data), "amd64")
		for p, sum := range sums {
			if err == nil && (!sha256Hex.MatchString(sum) || !strings.Contains(p, " ")) {
				t.Fatalf("%q has %q", p, sum)
			}
		}
	})
}

func TestComplaint(t *testing.T) {
	for stderr, want := range map[string]string{
		"":                                     "",
		"W: slow\nE: no such package\nE: more": ": no such package",
		"first\nlast\n\n":                      ": last",
	} {
		if got := complaint(stderr); got != want {
			t.Errorf("complaint(%q) = %q, want %q", stderr, got, want)
		}
	}
}

func ExampleParseLock() {
	l, err := ParseLock(strings.NewReader("busybox-static 1:1.35.0-4 " + someSum + "\n"))
	fmt.Println(l.Packages[0], err)
	// Output: busybox-static 1:1.35.0-4 <nil>
}
