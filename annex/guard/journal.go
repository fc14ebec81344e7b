package guard

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
)

// version is of the journal's format.
const version = 1

// longest bounds a line, and largest a journal that is read: one that is written is made
// anew long before.
const (
	longest = 64 << 10
	largest = 16 << 20
)

// line is a line of a journal: the first one's version and boot, or an entry, or its end.
type line struct {
	Version int    `json:"annex_journal,omitempty"`
	Boot    string `json:"boot,omitempty"`
	Number  uint64 `json:"n,omitempty"`
	Open    *Entry `json:"open,omitempty"`
	End     Ending `json:"end,omitempty"`
}

// Journal is what a journal's file tells.
type Journal struct {
	// Boot is the start of the kernel at which it was begun. No knob outlives that.
	Boot string
	Open []Entry // changed and not yet put back, the oldest first
	Last uint64  // the highest number
	// Whole is how many bytes of the file are whole lines. What follows them is of a line
	// during whose writing the daemon, or the machine, ended: its knob was not touched.
	Whole int64
}

// Unknown says that a journal was written by another version of this program.
type Unknown struct{ Version int }

func (u *Unknown) Error() string {
	return fmt.Sprintf("the journal is of version %d, and this program knows version %d: let the annexd that wrote it put the knobs back (annex off)", u.Version, version)
}

// Damaged says that lines of a journal are not what was written. The other ones are each
// whole by themselves, and are believed.
type Damaged struct{ Lines []int }

func (d *Damaged) Error() string {
	return fmt.Sprintf("lines %v of the journal are damaged: a knob that they tell of is not known: compare the limits and swappiness of containers with what was asked for them", d.Lines)
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

// text writes a line: a checksum, a blank and JSON.
func (l line) text() ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	b = fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, checksums), b)
	if len(b) > longest {
		return nil, fmt.Errorf("a line of %d bytes, want at most %d", len(b), longest)
	}
	return b, nil
}

var errDamaged = errors.New("damaged")

// parseLine reads what text wrote, without the end of the line.
func parseLine(text []byte) (l line, err error) {
	sum, body, ok := bytes.Cut(text, []byte(" "))
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(body, checksums)) {
		return line{}, errDamaged
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return line{}, errDamaged
	}
	if l.Open != nil {
		l.Open.Number = l.Number
	}
	return l, nil
}

// NoJournal says that a file holds something else than a journal: not a line of it is one's.
type NoJournal struct{ File string }

func (n *NoJournal) Error() string {
	return fmt.Sprintf("%s is there and is no journal of changed settings: name another file (state.journal), or move it away", n.File)
}

// begun tells whether a text may be the beginning of a line that text wrote.
func begun(text []byte) bool {
	const like = "00000000 {"
	for i, b := range text[:min(len(text), len(like))] {
		hex := b >= '0' && b <= '9' || b >= 'a' && b <= 'f'
		if like[i] == '0' && !hex || like[i] != '0' && b != like[i] {
			return false
		}
	}
	return true
}

// Parse reads a journal. Its error is an [*Unknown] or a [*NoJournal], and nothing is reported; or a
// [*Damaged], and what the whole lines say is reported. A last line without its end was being
// written, and is no error.
func Parse(r io.Reader) (Journal, error) {
	var j Journal
	var damaged []int
	open := map[uint64]Entry{}
	known := false // a line of it
	in := bufio.NewReaderSize(io.LimitReader(r, largest), longest)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		tooLong := false
		for ; errors.Is(err, bufio.ErrBufferFull); tooLong = true {
			j.Whole += int64(len(text))
			text, err = in.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			if !known && (j.Whole > 0 || !begun(text)) {
				return Journal{}, &NoJournal{}
			}
			break
		}
		if err != nil {
			return Journal{}, err
		}
		j.Whole += int64(len(text))
		l, err := parseLine(bytes.TrimSuffix(text, []byte("\n")))
		known = known || err == nil && !tooLong
		switch {
		case err != nil || tooLong:
			damaged = append(damaged, n)
			continue
		case n == 1 && l.Version != 0 && l.Version != version:
			return Journal{}, &Unknown{l.Version}
		case n == 1 && l.Version == version:
			j.Boot = l.Boot
		case l.Number == 0 || (l.Open == nil) == (l.End == ""):
			damaged = append(damaged, n)
		case l.Open != nil:
			open[l.Number] = *l.Open
		case l.End != Failed:
			delete(open, l.Number)
		}
		j.Last = max(j.Last, l.Number)
	}
	j.Open = slices.SortedFunc(maps.Values(open), func(a, b Entry) int { return cmp.Compare(a.Number, b.Number) })
	if damaged != nil {
		return j, &Damaged{damaged}
	}
	return j, nil
}

// begin is a journal with some entries.
func begin(boot string, open []Entry) ([]byte, error) {
	lines := []line{{Version: version, Boot: boot}}
	for _, e := range open {
		lines = append(lines, line{Number: e.Number, Open: &e})
	}
	var all strings.Builder
	for _, l := range lines {
		b, err := l.text()
		if err != nil {
			return nil, err
		}
		all.Write(b)
	}
	return []byte(all.String()), nil
}
