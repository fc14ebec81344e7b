package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"tare/kernel/pagemap"
	"tare/probe/faults"
	"tare/record"
)

// faultsAttachment is under what a trial keeps its faults.
const faultsAttachment = "faults"

// FaultCount is what a recording of page faults comes to. Counts are of faults;
// those of Types, Targets and below are of S1's six types.
type FaultCount struct {
	Backend string  `json:"backend"`
	Seconds float64 `json:"seconds"` // that were recorded; of whole lives, the longest
	// Life: the faults are those of whole lives: from the moment at which
	// each container executed its program, the runtime's own before that left out.
	Life bool `json:"whole_life,omitempty"`
	// Typed: the types are known, and with them all that depends on them.
	Typed   bool          `json:"typed"`
	User    uint64        `json:"user"`   // taken by the program
	Kernel  uint64        `json:"kernel"` // taken by the kernel on the program's memory
	Types   []TypeCount   `json:"types"`  // S1's six, in its order, and then those that are none of them
	Parts   []FaultShare  `json:"parts"`
	Files   []FaultShare  `json:"files"` // most first
	Sites   []FaultShare  `json:"sites"` // most first
	Targets []TargetCount `json:"targets"`
	// All is the duplicated share of the six types in user mode.
	All FaultShare `json:"all"`
	// MayCopy are the faults that end, or may end, in a private copy of a page:
	// copy-on-write, and write-protect in a private mapping but of the page of zeros.
	// Whether the kernel copied the latter, or found that nobody else has the page, is unknown.
	MayCopy uint64 `json:"may_copy"`
	Major   uint64 `json:"major"` // waited for a device
	// Lost are in User, Kernel and Types and in nothing else, and of whole lives in
	// none of them, which are counted by their records; Missed are nowhere.
	Lost   uint64 `json:"lost"`
	Missed uint64 `json:"missed"`
	// Unsettled are those whose mapping could not be read: they have no type.
	Unsettled uint64 `json:"unsettled"`
}

// TypeCount is the faults of one type.
type TypeCount struct {
	Type   string `json:"type"`
	User   uint64 `json:"user"`
	Kernel uint64 `json:"kernel"`
	// Same and Anywhere are those in user mode that another container took, too: on the
	// same virtual page and file page or frame; on the same file page or frame.
	Same     uint64 `json:"same"`
	Anywhere uint64 `json:"anywhere"`
}

// FaultShare is the faults of one place.
type FaultShare struct {
	Name     string `json:"name"`
	Faults   uint64 `json:"faults"`
	Same     uint64 `json:"same"`
	Anywhere uint64 `json:"anywhere"`
}

// TargetCount is the faults of one container.
type TargetCount struct {
	Name   string            `json:"name"`
	User   uint64            `json:"user"`
	Kernel uint64            `json:"kernel"`
	Types  map[string]uint64 `json:"types"` // in user mode
	Same   uint64            `json:"same"`
	// Minor and Major are the kernel's own count of what it served.
	Minor uint64 `json:"minor"`
	Major uint64 `json:"major"`
}

// placesKept is how many files and sites are kept, those with most faults.
const placesKept = 20

// sitesNamed is how many instructions, those with most faults, are named and put
// together by their functions.
const sitesNamed = 500

// readFaults counts a recording; whole if it is of whole lives.
func readFaults(r *faults.Recording, whole bool) *FaultCount {
	f := &FaultCount{
		Backend: r.Backend, Life: whole, Typed: r.Known.Types, Seconds: (r.To - r.From).Seconds(),
		Lost: r.Lost + r.Dropped, Missed: r.Missed, Unsettled: r.Unsettled,
	}
	own := func(*faults.Fault) bool { return true }
	counts := r.Counts
	if whole && r.Known.Records {
		// What a container faulted before its program is the runtime's own.
		own = r.Programs()
		f.Seconds = 0
		for i := range r.Targets {
			if at, ok := r.Began(int32(i)); ok {
				f.Seconds = max(f.Seconds, (r.To - at).Seconds())
			}
		}
		counts = make([]faults.Count, len(r.Counts))
		for fault := range r.All() {
			if fault.Target < 0 || !own(&fault) {
				continue
			}
			if fault.Kernel {
				counts[fault.Target].Kernel[fault.Type]++
			} else {
				counts[fault.Target].User[fault.Type]++
			}
		}
	}
	f.count(r, counts)
	if !r.Known.Records || !r.Known.Types {
		return f
	}
	counted := func(fault *faults.Fault) bool {
		return fault.Target >= 0 && !fault.Kernel && fault.Type.InTable() && own(fault)
	}
	f.share(r, r.Duplicates(counted))
	zeros, err := pagemap.ZeroFrame()
	for fault := range r.All() {
		if !counted(&fault) {
			continue
		}
		if fault.Major {
			f.Major++
		}
		switch frame, ok := fault.Frame(); {
		case fault.Type == faults.CopyOnWrite,
			fault.Type == faults.WriteProtect && fault.Mapping.Flags&faults.IsShared == 0 &&
				!(ok && err == nil && frame == zeros):
			f.MayCopy++
		}
	}
	return f
}

// count adds up the targets' counts by type.
func (f *FaultCount) count(r *faults.Recording, counts []faults.Count) {
	var all faults.Count
	for i, c := range counts {
		all.Add(c)
		t := TargetCount{Name: r.Targets[i].Name, Types: map[string]uint64{}}
		for kind := range faults.Types {
			if !r.Known.Types || kind.InTable() {
				t.User += c.User[kind]
				t.Kernel += c.Kernel[kind]
			}
			if r.Known.Types {
				t.Types[kind.String()] = c.User[kind]
			}
		}
		if i < len(r.Served) {
			t.Minor, t.Major = r.Served[i].Minor, r.Served[i].Major
		}
		f.User += t.User
		f.Kernel += t.Kernel
		f.Targets = append(f.Targets, t)
	}
	if !r.Known.Types {
		return
	}
	for kind := range faults.Types {
		if kind.InTable() {
			continue
		}
		if all.Of(kind) > 0 {
			f.Types = append(f.Types, TypeCount{Type: kind.String(), User: all.User[kind], Kernel: all.Kernel[kind]})
		}
	}
	for _, kind := range slices.Backward(types) {
		f.Types = slices.Insert(
			f.Types,
			0,
			TypeCount{Type: kind.String(), User: all.User[kind], Kernel: all.Kernel[kind]},
		)
	}
}

// share takes over what was duplicated.
func (f *FaultCount) share(r *faults.Recording, d faults.Duplicates) {
	of := func(name string, s faults.Share) FaultShare { return FaultShare{name, s.Faults, s.Same, s.Anywhere} }
	f.All = of("all", d.All)
	for i, kind := range types {
		f.Types[i].Same, f.Types[i].Anywhere = d.ByType[kind].Same, d.ByType[kind].Anywhere
	}
	for part := range faults.Parts {
		if d.ByPart[part].Faults > 0 {
			f.Parts = append(f.Parts, of(part.String(), d.ByPart[part]))
		}
	}
	for i := range f.Targets {
		f.Targets[i].Same = d.ByTarget[i].Same
	}
	for _, file := range faults.Most(d.ByFile, placesKept, faults.File.Compare) {
		f.Files = append(f.Files, of(fileName(r, file), d.ByFile[file]))
	}
	names, err := r.Names()
	if err != nil {
		names = nil // code is named by file and offset
	}
	// Several instructions of one function are one place to a reader.
	places := map[string]FaultShare{}
	for _, site := range faults.Most(d.BySite, sitesNamed, faults.Site.Compare) {
		name := siteName(r, names, site)
		sum, more := places[name], d.BySite[site]
		places[name] = FaultShare{name, sum.Faults + more.Faults, sum.Same + more.Same, sum.Anywhere + more.Anywhere}
	}
	f.Sites = slices.SortedFunc(maps.Values(places), func(a, b FaultShare) int {
		return cmp.Or(cmp.Compare(b.Faults, a.Faults), cmp.Compare(a.Name, b.Name))
	})
	f.Sites = f.Sites[:min(placesKept, len(f.Sites))]
}

// fileName is a file's path, or what else is known of it.
func fileName(r *faults.Recording, f faults.File) string {
	return cmp.Or(withinLayer(r.Path(f)), fmt.Sprintf("file %d of device %d", f.Inode, f.Device))
}

// layers match where a layer of an image begins: of ours, of Docker's, of
// containerd's.
var layers = regexp.MustCompile(`^.*?/(?:images/roots/[0-9a-f]+|overlay2/[0-9a-z-]+/diff|snapshots/[0-9]+/fs)(/.*)$`)

// withinLayer is a path as the container has it.
func withinLayer(path string) string {
	if m := layers.FindStringSubmatch(path); m != nil {
		return m[1]
	}
	return path
}

// siteName names code: "memcpy (/usr/lib/libc.so.6)", or where in the file it is.
func siteName(r *faults.Recording, names *faults.Names, s faults.Site) string {
	name := fileName(r, s.File)
	if names != nil {
		if function, ok := names.Function(s); ok {
			return fmt.Sprintf("%s (%s)", function, name)
		}
	}
	return fmt.Sprintf("%s+%#x", name, s.Offset)
}

// incomplete says why a recording of whole lives is not one of all copies' whole
// lives; empty where it is.
func (f *FaultCount) incomplete(r *faults.Recording, copies int) string {
	began := 0
	for i := range r.Targets {
		if _, ok := r.Began(int32(i)); ok {
			began++
		}
	}
	switch {
	case r.Unplaced > 0:
		return fmt.Sprintf("%d containers more appeared than can be distinguished", r.Unplaced)
	case r.LostEvents > 0:
		return fmt.Sprintf("%d executions and ends of threads were missed", r.LostEvents)
	case began != copies:
		return fmt.Sprintf("only %d of %d copies were seen to execute their program", began, copies)
	}
	return ""
}

// values are the metrics of a trial.
func (f *FaultCount) values() map[string]float64 {
	values := map[string]float64{lost: float64(f.Lost + f.Missed), major: float64(f.Major)}
	switch {
	case f.Life && len(f.Targets) > 0:
		values[total] = float64(f.User) / float64(len(f.Targets))
	case f.Seconds > 0:
		values[rate] = float64(f.User) / f.Seconds
	}
	if f.User > 0 {
		values[kernelMode] = 100 * float64(f.Kernel) / float64(f.Kernel+f.User)
		for i, kind := range types {
			if f.Typed {
				values[typeMetric(kind)] = 100 * float64(f.Types[i].User) / float64(f.User)
			}
		}
	}
	if f.All.Faults > 0 {
		values[copying] = 100 * float64(f.MayCopy) / float64(f.All.Faults)
		values[duplicated] = 100 * float64(f.All.Same) / float64(f.All.Faults)
		values[duplicatedFile] = 100 * float64(f.All.Anywhere) / float64(f.All.Faults)
	}
	return values
}

// attachment keeps it.
func (f *FaultCount) attachment() (record.Attachment, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return record.Attachment{}, fmt.Errorf("page faults: %w", err)
	}
	return record.Attachment{Name: faultsAttachment, MediaType: jsonType, Data: data}, nil
}

// decodeFaults reads it back.
func decodeFaults(data []byte) (*FaultCount, error) {
	var f FaultCount
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("stored page faults cannot be read: %w", err)
	}
	return &f, nil
}
