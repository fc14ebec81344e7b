package census

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"tare/probe/pagetable"
)

// A Count's JSON counts entries of base pages, frames and page-table pages, all
// of 4096 bytes; fields that end in _bytes are bytes, and those in "shares" are
// parts of 1, absent where there is nothing to have a share in. What is computed
// from other fields is written for the reader's sake, and not read back.

// kindNames are the kinds as JSON names them.
var kindNames = [pagetable.Kinds]string{
	pagetable.Code:         "code",
	pagetable.Library:      "library",
	pagetable.FileData:     "file data",
	pagetable.Anonymous:    "anonymous",
	pagetable.Heap:         "heap",
	pagetable.Stack:        "stack",
	pagetable.SharedMemory: "shared memory",
	pagetable.VDSO:         "vdso",
	pagetable.Device:       "device",
}

// KindName is what a kind is called.
func KindName(k pagetable.Kind) string { return kindNames[k] }

// MarshalJSON writes the kinds that there are, by name.
func (b ByKind) MarshalJSON() ([]byte, error) {
	named := map[string]*Tally{}
	for k := range b {
		if b[k].Entries > 0 {
			named[kindNames[k]] = &b[k]
		}
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *ByKind) UnmarshalJSON(text []byte) error {
	var named map[string]Tally
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*b = ByKind{}
	for name, t := range named {
		k := slices.Index(kindNames[:], name)
		if k < 0 {
			return fmt.Errorf("%q is no kind of mapping: it is written by another version of tare", name)
		}
		b[k] = t
	}
	return nil
}

// MarshalJSON adds the shares.
func (t Tally) MarshalJSON() ([]byte, error) {
	type plain Tally
	shares := map[string]float64{}
	for name, v := range map[string]float64{
		"groupable":           t.Groupability(),
		"groupable_across":    t.Across.Groupability(),
		"groupable_with_zero": t.GroupabilityWithZero(),
		"across_with_zero":    t.AcrossWithZero(),
		"active":              t.ActiveShare(),
		"active_groupable":    t.ActiveGroupableShare(),
		"active_across":       t.ActiveAcrossShare(),
		"huge_of_active":      t.HugeOfActive(),
		"thp_of_active":       t.THPOfActive(),
	} {
		if !math.IsNaN(v) {
			shares[name] = v
		}
	}
	return json.Marshal(struct {
		plain
		Shares map[string]float64 `json:"shares,omitempty"`
	}{plain(t), shares})
}

// MarshalJSON adds the bytes.
func (t TableCount) MarshalJSON() ([]byte, error) {
	type plain TableCount
	return json.Marshal(struct {
		plain
		Bytes            uint64 `json:"total_bytes"`
		SpareBytes       uint64 `json:"spare_bytes"`
		SpareAcrossBytes uint64 `json:"spare_across_bytes"`
		Bound            uint64 `json:"bound_bytes"`
		BoundAcross      uint64 `json:"bound_across_bytes"`
		HugeFileBytes    uint64 `json:"huge_files_bytes"`
		HugeFileEntries  uint64 `json:"huge_files_entries"`
	}{
		plain(t), t.Bytes(), t.SpareBytes(), t.SpareAcrossBytes(), t.Bound(), t.BoundAcross(),
		t.HugeFileBytes(), t.HugeFileEntries(),
	})
}

// MarshalJSON adds the bytes.
func (f Frames) MarshalJSON() ([]byte, error) {
	type plain Frames
	return json.Marshal(struct {
		plain
		Bytes uint64 `json:"mapped_bytes"`
	}{plain(f), f.Bytes()})
}
