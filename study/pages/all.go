package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/census"
	"tare/container"
	"tare/probe/contents"
	"tare/probe/pagetable"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/terminal"
)

// AllSchema names the layout of what `tare pages --all --json` writes.
const AllSchema = "tare-pages-all/1"

// sampled is about how many pages of each container are read, to estimate how much
// of their anonymous memory is equal.
const sampled = 2000

// Whole is a machine: every container on it, by image, and the possible savings.
type Whole struct {
	Containers []container.Container
	Machine    *census.Machine
	Backend    string
	Taken      time.Time
	Elapsed    time.Duration // of the census, the reading of contents included
	Gone       []int
	Refused    []int // may not be looked into
	Notes      []string
}

// LookAtAll takes a census of containers and finds what they hold twice. Where read is true,
// it reads a sample of their anonymous memory, and the bytes of files that are in several
// images. Nothing is written.
func LookAtAll(
	ctx context.Context, taker pagetable.Taker, containers []container.Container, read bool, notes []string,
) (w *Whole, err error) {
	began := time.Now()
	found, l, err := take(ctx, taker, containers, notes)
	if err != nil {
		return nil, err
	}
	w = &Whole{
		Containers: l.Containers, Backend: found.Backend, Taken: found.Taken,
		Gone: found.Gone, Refused: found.Refused, Notes: l.Notes,
	}
	members := make([]census.Member, len(l.Containers))
	for i, c := range l.Containers {
		members[i] = census.Member{Name: c.Name, Image: cmp.Or(c.ImageID, c.Image)}
	}
	identify := func(m contents.Mapped) (string, error) { return contents.Length(m) }
	o := census.SavingOptions{Sample: sampled, Seed: uint64(found.Taken.UnixNano()), Basis: "path and length"}
	if read {
		bytes := contents.NewPages()
		defer bytes.Close()
		defer func() {
			if err := bytes.Err(); err != nil && w != nil {
				w.Notes = append(w.Notes, "contents of anonymous memory: "+err.Error())
			}
		}()
		identify = func(m contents.Mapped) (string, error) { return contents.Digest(ctx, m) }
		o.Contents, o.Basis = bytes.Read, "path, length and SHA-256"
		// Of files of different lengths nothing is read.
		o.Length = func(f census.File) (int64, bool) {
			n, err := contents.Size(contents.Mapped{PID: f.PID, Start: f.Start, End: f.End})
			return n, err == nil
		}
	}
	o.Identify = func(f census.File) (string, bool) {
		identity, err := identify(contents.Mapped{PID: f.PID, Start: f.Start, End: f.End})
		return identity, err == nil
	}
	if w.Machine, err = census.Save(ctx, found, members, o); err != nil {
		return nil, err
	}
	// Images are identified by their digest, and named by what their user wrote.
	for i := range w.Machine.Images {
		w.Machine.Images[i].Image = w.imageName(w.Machine.Images[i].Image)
	}
	w.Elapsed = time.Since(began)
	return w, nil
}

// imageName is the name under which people know an image, by its digest.
func (w *Whole) imageName(id string) string {
	for _, c := range w.Containers {
		if id != "" && c.ImageID == id && c.Image != "" {
			return c.Image
		}
	}
	if id == "" {
		return "no image"
	}
	return strings.TrimPrefix(id, "sha256:")[:min(12, len(strings.TrimPrefix(id, "sha256:")))]
}

// way is one way to save memory by holding something once.
type way struct {
	name    string
	bytes   float64
	low     float64 // of an estimate; both 0 where it is counted
	high    float64
	basis   string
	already bool // it is saved now
}

// ways are the possible savings, the largest first, and then those made already.
func (w *Whole) ways() []way {
	all := &w.Machine.All
	ways := []way{
		{name: "mapping one frame several times", bytes: float64(all.Mapped - all.Resident), basis: "counted: entries minus frames", already: true},
		{name: "merging by KSM", bytes: float64(all.KSM), basis: "counted: frames that the kernel has merged", already: true},
		{name: "sharing page tables between containers", bytes: float64(all.Tables.SpareAcrossBytes()), basis: "counted: tables that are wholly the same"},
		{name: "huge pages for files", bytes: float64(all.Tables.HugeFileBytes()),
			basis: fmt.Sprintf("counted: page tables of ranges of 2 MiB that are mapped whole; also %d translations fewer", all.Tables.HugeFileEntries())},
	}
	if c := all.Contents; c != nil && c.Share != nil {
		candidates := float64(c.Candidates) * pagetable.PageSize
		of := way{name: "merging equal anonymous pages (KSM)", bytes: c.Share.Value * candidates,
			basis: fmt.Sprintf("estimated from %d of %d pages; rather too low than too high", c.Read, c.Candidates)}
		if c.Share.Low != nil && c.Share.High != nil && !c.Complete {
			of.low, of.high = *c.Share.Low*candidates, *c.Share.High*candidates
		}
		ways = append(ways, of)
	}
	if b := w.Machine.Base; b != nil {
		ways = append(ways, way{
			name: "one base image for all", bytes: float64(b.Saved),
			basis: fmt.Sprintf("counted: %s in several images, the same by %s", report.Counted(len(b.Files), "file"), b.Basis),
		})
	}
	slices.SortStableFunc(ways, func(a, b way) int {
		if a.already != b.already {
			if a.already {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.bytes, a.bytes)
	})
	return ways
}

// Answer is the sentence that the reader came for.
func (w *Whole) Answer() string {
	all := &w.Machine.All
	text := fmt.Sprintf(
		"%s of %s map %s onto %s of memory, with %s of page tables",
		report.Counted(all.Containers, "container"),
		report.Counted(len(w.Machine.Images), "image"),
		size(float64(all.Mapped)),
		size(float64(all.Resident)),
		size(float64(all.Tables.Bytes())),
	)
	for _, most := range w.ways() {
		if !most.already && most.bytes > 0 {
			return text + fmt.Sprintf(". The largest possible saving is %s, by %s.", size(most.bytes), most.name)
		}
	}
	if all.Contents == nil {
		return text + ". No possible saving was found; contents were not compared (--contents compares them)."
	}
	return text + ". No possible saving was found."
}

// Sheet is the machine's page.
func (w *Whole) Sheet(host string) report.Sheet {
	s := report.Sheet{
		Title: "tare pages --all", Answer: w.Answer(),
		Facts: []string{
			fmt.Sprintf("census: %d entries of %s by %s in %v (reading of contents included), at %s",
				w.Machine.All.Entries.Entries, report.Counted(w.Machine.All.Processes, "process"),
				w.Backend, kit.Short(w.Elapsed), taken(w.Taken)),
			host,
		},
	}
	for _, n := range w.Notes {
		s.Banners = append(s.Banners, "note: "+n)
	}
	if n := len(w.Gone); n > 0 {
		s.Banners = append(s.Banners, goneNote(n))
	}
	if n := len(w.Refused); n > 0 {
		s.Banners = append(s.Banners, refusedNote(n))
	}
	s.Parts = []report.Part{w.images(), w.savings()}
	if t, ok := w.base(); ok {
		s.Parts = append(s.Parts, t)
	}
	for _, image := range w.Machine.Images {
		if len(image.Names) > 1 {
			s.Next = []string{"tare pages " + terminal.Shell(image.Names[:min(4, len(image.Names))]...)}
			break
		}
	}
	return s
}

// images is one row an image.
func (w *Whole) images() report.Table {
	t := report.Table{
		Title: "Memory by image",
		Note: "Groupable: share of entries with the same page and frame in two or more containers of the image. " +
			"Equal: last-level page tables that are wholly the same in two or more of its containers, less one of each. " +
			"KSM: anonymous memory that merging would save.",
		Method: "Mapped counts each entry; memory counts each frame once. The saving by KSM is estimated from a sample of pages.",
		Columns: []report.Column{
			{Head: "image"}, {Head: "containers", Number: true}, {Head: "mapped, MiB", Number: true, Optional: true},
			{Head: "memory, MiB", Number: true}, {Head: "groupable, %", Number: true},
			{Head: "page tables, KiB", Number: true, Optional: true}, {Head: "equal, KiB", Number: true},
			{Head: "KSM, MiB", Number: true, Optional: true},
		},
	}
	for i := range w.Machine.Images {
		image := &w.Machine.Images[i]
		ksm := report.Absent()
		if c := image.Contents; c != nil && c.Share != nil {
			scale := float64(c.Candidates) * pagetable.PageSize / mebibyte
			ksm = report.Measured(c.Share.Value * scale)
			if c.Share.Low != nil && c.Share.High != nil && !c.Complete {
				ksm.Detail = report.Measured(*c.Share.Low*scale).Text + " to " + report.Measured(*c.Share.High*scale).Text
			}
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: image.Image}, {Text: fmt.Sprint(image.Containers)}, mib(image.Mapped), mib(image.Resident),
			percent(image.Entries.Across.Groupable, whole(&image.Entries)),
			report.Measured(float64(image.Tables.Bytes()) / 1024),
			report.Measured(float64(image.Tables.SpareAcrossBytes()) / 1024), ksm,
		})
	}
	return t
}

// savings lists the ways.
func (w *Whole) savings() report.Table {
	t := report.Table{
		Title:   "Possible savings of memory",
		Note:    "The ways overlap: what one saves, another cannot. Estimates have an interval of 95 %.",
		Columns: []report.Column{{Head: "way"}, {Head: "saving, MiB", Number: true}, {Head: "basis"}},
	}
	for _, of := range w.ways() {
		cell := report.Measured(of.bytes / mebibyte)
		if of.high > 0 {
			cell.Detail = report.Measured(of.low/mebibyte).Text + " to " + report.Measured(of.high/mebibyte).Text
		}
		name := report.Cell{Text: of.name}
		if of.already {
			name.Text, name.Tone, cell.Tone = "saved already: "+of.name, report.Faint, report.Faint
		}
		t.Rows = append(t.Rows, []report.Cell{name, cell, {Text: of.basis}})
	}
	return t
}

// base lists the files that are in several images.
func (w *Whole) base() (report.Table, bool) {
	t := report.Table{
		Title: "Files in several images",
		Columns: []report.Column{
			{Head: "file"}, {Head: "images", Number: true}, {Head: "copies", Number: true}, {Head: "possible saving, MiB", Number: true},
		},
	}
	b := w.Machine.Base
	if b == nil || len(b.Files) == 0 {
		return t, false
	}
	t.Note = "Files are the same by " + b.Basis + "."
	if b.Unknown > 0 {
		t.Note += fmt.Sprintf(" %s could not be read and are left out.", report.Counted(b.Unknown, "file"))
	}
	for _, f := range b.Files[:min(filesShown, len(b.Files))] {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: f.Path}, {Text: fmt.Sprint(len(f.Images))}, {Text: fmt.Sprint(f.Copies)}, mib(f.Saved),
		})
	}
	return t, true
}

// AllDocument is a machine for other programs.
type AllDocument struct {
	Schema     string                `json:"schema"`
	Host       record.Host           `json:"host"`
	Taken      time.Time             `json:"taken"`
	Seconds    float64               `json:"elapsed_s"`
	Backend    string                `json:"backend"`
	Containers []container.Container `json:"containers"`
	Machine    *census.Machine       `json:"machine"`
	Gone       []int                 `json:"gone,omitempty"`
	Refused    []int                 `json:"refused,omitempty"`
	Notes      []string              `json:"notes,omitempty"`
}

// Document is the machine for other programs.
func (w *Whole) Document(host record.Host) AllDocument {
	return AllDocument{
		Schema: AllSchema, Host: host, Taken: w.Taken, Seconds: w.Elapsed.Seconds(), Backend: w.Backend,
		Containers: w.Containers, Machine: w.Machine, Gone: w.Gone, Refused: w.Refused, Notes: w.Notes,
	}
}
