package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sparseFormats are GNU tar's ways of storing a sparse file.
var sparseFormats = [][]string{
	{"--format=gnu"},
	{"--format=pax", "--sparse-version=0.0"},
	{"--format=pax", "--sparse-version=0.1"},
	{"--format=pax", "--sparse-version=1.0"},
}

// sparseFile makes a file of that length with a hole before, between and after two words.
func sparseFile(t testing.TB, path string, length int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("first"), length/4+100)
	_, err2 := f.WriteAt([]byte("second"), length/2-3)
	if err := errors.Join(err, err2, f.Truncate(length)); err != nil {
		t.Fatal(err)
	}
}

// sparseTar is what GNU tar writes of such a file, called "sparse".
func sparseTar(t testing.TB, length int64, format ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	sparseFile(t, filepath.Join(dir, "sparse"), length)
	out, err := exec.Command("tar", append(format, "--sparse", "--owner=0", "--group=0", "-C", dir, "-cf", "-", "sparse")...).Output()
	if err != nil {
		t.Skipf("needs GNU tar: %v", err)
	}
	if int64(len(out)) > 100<<10 {
		t.Skipf("the file system of %s has no holes", dir)
	}
	return out
}

// onDisk is the room that all below dir takes.
func onDisk(t testing.TB, dir string) int64 {
	t.Helper()
	var total int64
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Holes stay holes: in the root, in the archive for engines, and wherever the root is
// copied or sent to.
func TestHolesStayHoles(t *testing.T) {
	const length, most = 16 << 20, 1 << 20
	digest := ""
	for _, format := range sparseFormats {
		s := openTestStore(t)
		img, err := s.FromArchive(t.Context(), inFile(t, "sparse.tar", dockerArchive(t, sparseTar(t, length, format...))))
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if used := onDisk(t, s.dir); used > most {
			t.Errorf("%s: the store takes %d bytes", format, used)
		}
		want, got := make([]byte, length), []byte(nil)
		copy(want[length/4+100:], "first")
		copy(want[length/2-3:], "second")
		if got, err = os.ReadFile(filepath.Join(img.Root, "sparse")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the content is another (%v)", format, err)
		}
		if digest == "" {
			digest = img.Digest
		}
		if img.Digest != digest || img.Size < length {
			t.Errorf("%s: digest %s, %d bytes; want %s, %d", format, img.Digest, img.Size, digest, length)
		}
		if n, err := Layers(img); n != 1 || err != nil {
			t.Errorf("%s: its archive has %d layers, %v", format, n, err)
		}
	}
	// Content alone decides the digest, holes or not.
	dir := t.TempDir()
	sparseFile(t, filepath.Join(dir, "sparse"), length)
	s := openTestStore(t)
	img, err := s.FromRootfs(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if used := onDisk(t, s.dir); used > most {
		t.Errorf("copied: the store takes %d bytes", used)
	}
	there := openTestStore(t)
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(SendLayer(t.Context(), w, img.Root)) }()
	if _, err := there.Receive(t.Context(), img, r); err != nil {
		t.Fatal(err)
	}
	if used := onDisk(t, there.dir); used > most {
		t.Errorf("sent: the store takes %d bytes", used)
	}
}

// A sparse file whose map is too short for its data is refused, like all that is broken.
func TestSparseMapThatIsWrong(t *testing.T) {
	broken := sparseTar(t, 1<<20, sparseFormats[0]...)
	stored, err := strconv.ParseInt(strings.Trim(string(broken[124:136]), "\x00 "), 8, 64)
	if err != nil {
		t.Fatal(err)
	}
	copy(broken[124:], fmt.Sprintf("%011o", stored+512))
	copy(broken[148:], "        ")
	sum := 0
	for _, b := range broken[:512] {
		sum += int(b)
	}
	copy(broken[148:], fmt.Sprintf("%06o\x00 ", sum))
	_, err = unpackLayers(t, foreign, broken)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Entry != "sparse" {
		t.Errorf("%v, want a refusal of its entry", err)
	}
}

// Zeros that are no hole stay where they are: a program that reads them reads the disk.
func TestZerosAreNoHoles(t *testing.T) {
	s := openTestStore(t)
	const length = 1 << 20
	img, err := s.FromArchive(t.Context(), inFile(t, "zeros.tar", dockerArchive(t, makeTar(t, file("zeros", strings.Repeat("\x00", length))))))
	if err != nil {
		t.Fatal(err)
	}
	if used := onDisk(t, filepath.Join(img.Root, "zeros")); used < length {
		t.Errorf("%d bytes of zeros take %d", length, used)
	}
}

func FuzzHoles(f *testing.F) {
	f.Add([]byte("text"), uint16(3), uint16(9000))
	f.Add([]byte{0, 1, 0}, uint16(4096), uint16(1))
	f.Fuzz(func(t *testing.T, pieces []byte, size, step uint16) {
		if len(pieces) > 100 {
			return
		}
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		// Each byte makes a piece of its own value: zero ones are runs of zeros.
		var want []byte
		w := &holeWriter{file: out}
		for i, b := range pieces {
			piece := bytes.Repeat([]byte{b}, (int(size)+i*int(step))%10_000)
			want = append(want, piece...)
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("%d of %d written, %v", n, len(piece), err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out.Name()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes came out as %d others (%v)", len(want), len(got), err)
		}
	})
}

// Whatever the bytes, reading ends, and within the limits.
func FuzzPlain(f *testing.F) {
	for _, pack := range oddlyCompressed(f) {
		f.Add(pack(bytes.Repeat([]byte("content "), 200)))
	}
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := Limits{Bytes: 1 << 20, Ratio: 20, RatioFloor: 1 << 16}
		r, done, err := plain(bytes.NewReader(data), limits)
		if err != nil {
			return
		}
		defer done()
		n, err := io.Copy(io.Discard, r)
		if err == nil && n > limits.RatioFloor && n > (limits.Ratio+1)*int64(len(data)) {
			t.Errorf("%d bytes unpacked to %d", len(data), n)
		}
	})
}
