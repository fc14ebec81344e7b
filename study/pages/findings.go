package pages

import (
	"encoding/json"
	"fmt"
	"math"

	"tare/census"
	"tare/probe/pagetable"
	"tare/record"
)

// filesKept is how many files an attachment lists, those with most entries first.
const filesKept = 40

// censusValues are a census' values, without the moment's prefix. What has no
// value (a share of nothing) is left out.
func censusValues(c *census.Count) map[string]float64 {
	t := &c.All
	whole := float64(t.Classes.Sum())
	of := func(part uint64, whole float64) float64 { return 100 * float64(part) / whole }
	values := map[string]float64{
		entries:      whole,
		groupable:    of(t.Groupable, whole),
		sharedFrame:  of(t.SharedFrame, whole),
		exclusive:    of(t.Exclusive, whole),
		zeroPage:     of(t.Zero, whole+float64(t.Zero)),
		asS1:         100 * t.GroupabilityWithZero(),
		across:       of(t.Across.Groupable, whole),
		sharedAcross: of(t.Across.SharedFrame, whole),
		exclusiveOne: of(t.Across.Exclusive, whole),
		mapped:       float64(t.Classes.Sum()) * pagetable.PageSize,
		resident:     float64(c.Frames.Bytes()),
		tables:       float64(c.Tables.Bytes()),
		tablesSaved:  float64(c.Tables.SpareAcrossBytes()),
	}
	if c.Flags {
		values[active] = of(t.Active, whole)
		values[activeGroup] = of(t.ActiveGroupable, whole)
		values[groupOfActive] = of(t.ActiveGroupable, float64(t.Active))
		values[acrossActive] = of(t.ActiveAcross, float64(t.Active))
		values[hugeOfActive] = of(t.THPActive, float64(t.Active))
		values[hugeOfGroup] = of(t.THPGroupable, float64(t.Groupable))
		values[largeFolio] = of(t.LargeFolio, whole)
	}
	for name, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			delete(values, name)
		}
	}
	return values
}

// attachmentName is under what a trial keeps a census.
func (m moment) attachmentName() string { return "census-" + string(m) }

// jsonType is the media type of what is attached.
const jsonType = "application/json"

// censusAttachment keeps a census by container, process, kind and file.
func censusAttachment(at moment, c *census.Count) (record.Attachment, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return record.Attachment{}, fmt.Errorf("census at %s: %w", at, err)
	}
	return record.Attachment{Name: at.attachmentName(), MediaType: jsonType, Data: data}, nil
}

// decodeCensus reads it back.
func decodeCensus(data []byte) (*census.Count, error) {
	var c census.Count
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("a stored census cannot be read: %w", err)
	}
	return &c, nil
}
