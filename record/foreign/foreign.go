// Package foreign reads results that were measured elsewhere, by other programs on
// other hosts, into runs: so that one way of computing effects and one set of words
// for them serves for ours and theirs.
//
// It reads five formats: csv (a row a value, or a matrix), what redis-benchmark
// prints, what HACC-IO prints, the Go benchmark format (package benchfmt of
// golang.org/x/perf reads it), and hyperfine's JSON. A format yields observations: a
// value of a metric at levels of factors. Where factors are in none of the columns,
// they are read out of file names and headings, or said; [Options] says how. Then
// observations are arranged: one factor's levels are the conditions, one counts the
// repetitions, and the others make the cells within which conditions are compared.
//
// It is no converter of designs. What the measuring left out (an order drawn at
// random, a baseline run twice, the host) cannot be read out of its results, and is
// not made up: a run from here says where it is from ([record.Import]), and package
// overhead says of such a run what it lacks, and compares its conditions as two
// samples unless its importer says that repetitions are pairs.
package foreign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"tare/record"
)

// Format is a way in which results are written.
type Format string

// The formats.
const (
	CSV            Format = "csv"
	RedisBenchmark Format = "redis-benchmark"
	Haccio         Format = "haccio"
	Benchfmt       Format = "benchfmt"
	Hyperfine      Format = "hyperfine"
)

// Formats are all of them.
var Formats = []Format{CSV, RedisBenchmark, Haccio, Benchfmt, Hyperfine}

// Bounds on what is read: more is no table of results, but a mistake.
const (
	mostBytes      = 64 << 20 // of a file
	mostValues     = 1 << 20  // of all files
	mostFactors    = 200      // of a value
	mostLevels     = 16 << 20 // of all values together
	mostColumns    = 10_000   // of a table
	mostConditions = 20_000
	mostMetrics    = 1000 // of a condition
	// Of a condition: what looks for a trend over repetitions compares each with each.
	mostRepetitions = 2000
)

// File is one file of results.
type File struct {
	Name string
	// Open is called when its turn comes, and what it gives is closed before the next
	// file is opened.
	Open func() (io.ReadCloser, error)
}

// observation is one value of one metric, at levels of factors.
type observation struct {
	metric string
	value  float64
	unit   string
	// higher says that more of it is better, lower that less is; neither where the
	// format does not tell.
	higher, lower bool
	factors       []level // in the order in which the format tells them
	failed        string  // why it counts for nothing; empty where it counts
	at            position
	process       int // of those whose output its file holds, or of the repetition of a program
}

// position is where an observation was read.
type position struct {
	file string
	line int
}

func (p position) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// level is a factor at a level.
type level struct{ factor, level string }

// of gives the level of a factor; false where there is none.
func (o *observation) of(factor string) (string, bool) {
	i := slices.IndexFunc(o.factors, func(l level) bool { return l.factor == factor })
	if i < 0 {
		return "", false
	}
	return o.factors[i].level, true
}

// set gives a factor a level, in the place that it has.
func (o *observation) set(factor, to string) {
	i := slices.IndexFunc(o.factors, func(l level) bool { return l.factor == factor })
	if i < 0 {
		o.factors = append(o.factors, level{factor, to})
		return
	}
	o.factors[i].level = to
}

// Wanted says that something was not said, or not so that it can be, and by which
// flag it is.
type Wanted struct {
	Flag string // "condition"
	Why  string
}

func (e *Wanted) Error() string { return "--" + e.Flag + ": " + e.Why }

func wanted(flag, format string, args ...any) error {
	return &Wanted{flag, fmt.Sprintf(format, args...)}
}

// Malformed says that a file does not hold what it should.
type Malformed struct {
	Where string // "local-1.csv:3"
	Why   string
}

func (e *Malformed) Error() string { return e.Where + ": " + e.Why }

func malformed(at position, format string, args ...any) error {
	return &Malformed{at.String(), fmt.Sprintf(format, args...)}
}

// Read reads files of one format into a run, to which the caller adds ID, Command and
// Version. Its errors are *Wanted and *Malformed, those of opening and reading the
// files, and the context's cause where that ends first.
func Read(ctx context.Context, files []File, opt Options) (record.Run, error) {
	if !slices.Contains(Formats, opt.Format) {
		if opt.Format != "" {
			return record.Run{}, wanted("format", "%q is none of %s", opt.Format, names(Formats))
		}
		return record.Run{}, wanted("format", "say which of %s the files are in", names(Formats))
	}
	if len(files) == 0 {
		return record.Run{}, &Malformed{"import", "no files to read"}
	}
	told, err := opt.parse()
	if err != nil {
		return record.Run{}, err
	}
	var all observations
	var host record.Host
	var sources []record.Source
	for _, f := range files {
		data, err := f.read(ctx)
		if err != nil {
			return record.Run{}, err
		}
		text, err := plain(f.Name, data)
		if err != nil {
			return record.Run{}, err
		}
		read, err := told.parseFile(ctx, f.Name, text, &host)
		if stopped := context.Cause(ctx); stopped != nil {
			return record.Run{}, stopped // which a format may have taken for a fault of the file
		}
		if err != nil {
			return record.Run{}, err
		}
		if err := all.append(f.Name, read); err != nil {
			return record.Run{}, err
		}
		sum := sha256.Sum256(data)
		source := record.Source{Name: f.Name, SHA256: hex.EncodeToString(sum[:])}
		if err := told.twice(sources, source); err != nil {
			return record.Run{}, err
		}
		sources = append(sources, source)
	}
	kept, err := told.reword(ctx, all.all)
	if err != nil {
		return record.Run{}, err
	}
	run, err := told.arrange(ctx, kept)
	if err != nil {
		return record.Run{}, err
	}
	run.Host = host
	is := run.Plan.Imported
	is.Format, is.Sources, is.Paired, is.Order, is.Host = string(opt.Format), sources, opt.Paired, opt.Order, opt.Host
	return run, nil
}

// twice refuses a file that holds what one before it holds, as its figures would count
// twice. Of two whose names tell different levels it does not: coarse figures may be
// the same in two repetitions.
func (t *told) twice(before []record.Source, is record.Source) error {
	levels, err := t.inName(is.Name)
	if err != nil {
		return err
	}
	for _, was := range before {
		if was.SHA256 != is.SHA256 {
			continue
		}
		if of, err := t.inName(was.Name); err != nil || !slices.Equal(of, levels) {
			continue
		}
		if was.Name == is.Name {
			return malformed(position{file: is.Name}, "is named twice, and its figures would count twice: name it once")
		}
		return malformed(position{file: is.Name}, "holds what %s holds, byte for byte, and its figures would count twice: leave one out, or tell them apart by --name", was.Name)
	}
	return nil
}

// read gives what a file holds.
func (f File) read(ctx context.Context) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(interruptible{ctx, r}, mostBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	if len(data) > mostBytes {
		return nil, malformed(position{file: f.Name}, "more than %d MiB: import a part of it", mostBytes>>20)
	}
	return data, nil
}

// parseFile reads a file's observations, with the factors that its name tells; what it
// tells of the host goes to host.
func (t *told) parseFile(ctx context.Context, name string, data []byte, host *record.Host) ([]observation, error) {
	named, err := t.inName(name)
	if err != nil {
		return nil, err
	}
	read, err := t.byFormat(interruptible{ctx, bytes.NewReader(data)}, name, data, host)
	if err != nil {
		return nil, err
	}
	if len(read) == 0 {
		first := ""
		if line, _, _ := bytes.Cut(bytes.TrimSpace(data), []byte("\n")); len(line) > 0 {
			first = ", and begins with " + brief(string(line))
		}
		return nil, malformed(position{file: name}, "holds no figures in the form of %s%s", t.Format, first)
	}
	for i := range read {
		if err := stopped(ctx, i); err != nil {
			return nil, err
		}
		for _, l := range named {
			if was, ok := read[i].of(l.factor); ok && was != l.level {
				return nil, malformed(read[i].at, "%s is %s here and %s in the file's name: --name must not name a factor that the file tells", l.factor, was, l.level)
			}
			read[i].set(l.factor, l.level)
		}
	}
	return read, nil
}

// byFormat reads a file's observations. Some formats read r, some all of data, which
// is the same.
func (t *told) byFormat(r io.Reader, name string, data []byte, host *record.Host) ([]observation, error) {
	switch t.Format {
	case CSV:
		tab, err := t.openTable(name, r, data)
		if err != nil {
			return nil, err
		}
		if t.columns != nil {
			return t.readMatrix(tab)
		}
		return t.readRows(tab)
	case RedisBenchmark:
		return t.readRedisBenchmark(name, data)
	case Haccio:
		return t.readHaccio(name, r)
	case Benchfmt:
		return t.readBenchfmt(name, r, data, host)
	default:
		return t.readHyperfine(name, data)
	}
}

// inName reads factors out of a file's name: out of as much of its path as the
// pattern has.
func (t *told) inName(name string) ([]level, error) {
	if t.name == nil {
		return nil, nil
	}
	parts := strings.Split(filepath.ToSlash(name), "/")
	deep := strings.Count(t.Name, "/") + 1
	path := strings.Join(parts[max(0, len(parts)-deep):], "/")
	levels, ok := t.name.match(path)
	if !ok {
		return nil, wanted("name", "%s is not of the form %s", name, t.Name)
	}
	return levels, nil
}

func names[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = string(a)
	}
	return strings.Join(words, ", ")
}
