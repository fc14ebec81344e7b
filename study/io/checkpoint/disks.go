package checkpoint

import (
	"fmt"
	"slices"

	"tare/platform"
	"tare/study/io/place"
)

// disk is the file system that the data of a place lie on.
type disk struct {
	id   string // its device's number, or inMemory
	dir  string // a directory on it
	free int64
}

// disks are those of the places, asked for once.
type disks struct {
	host  Host
	known map[place.Place]disk
}

// of finds a place's. The error says that it cannot be known.
func (d disks) of(p place.Place) (disk, error) {
	if found, ok := d.known[p]; ok {
		return found, nil
	}
	on, err := d.host.Platform(p.Platform)
	if err != nil {
		return disk{}, err
	}
	dir, err := storedAt(on, p.Storage)
	if err != nil {
		return disk{}, err
	}
	found := disk{id: inMemory}
	if dir != "" {
		at, err := d.host.Disk(dir)
		if err != nil {
			return disk{}, err
		}
		found = disk{id: at.Device, dir: dir, free: at.Free}
	}
	d.known[p] = found
	return found, nil
}

// distinct are the disks of places, each once.
func (d disks) distinct(places []place.Place) []disk {
	var all []disk
	for _, p := range places {
		found, err := d.of(p)
		if err == nil && !slices.ContainsFunc(all, func(a disk) bool { return a.id == found.id }) {
			all = append(all, found)
		}
	}
	return all
}

// directories are one on each disk.
func (d disks) directories(places []place.Place) []string {
	var dirs []string
	for _, found := range d.distinct(places) {
		if found.dir != "" {
			dirs = append(dirs, found.dir)
		}
	}
	return dirs
}

// floors are the places in which the floor of each disk is found: bare metal, where
// its own files lie there, and otherwise the place with least between, which is a
// volume.
func (d disks) floors(places []place.Place) []place.Place {
	var all []place.Place
	for _, of := range d.distinct(places) {
		var on []place.Place
		for _, p := range places {
			if found, err := d.of(p); err == nil && found.id == of.id {
				on = append(on, p)
			}
		}
		best := on[0] // bare metal is first among all
		if best.Platform != place.Bare {
			for _, s := range []platform.Storage{platform.StorageVolume, platform.StorageBind} {
				if i := slices.IndexFunc(on, func(p place.Place) bool { return p.Storage == s }); i >= 0 {
					best = on[i]
					break
				}
			}
		}
		all = append(all, best)
	}
	return all
}

// tooSmall says which disk cannot hold so much; empty where all can.
func (d disks) tooSmall(places []place.Place, bytes int64) string {
	for _, of := range d.distinct(places) {
		// File systems keep some for themselves, and slow down when they are full.
		if need := bytes + bytes/20; of.dir != "" && need > of.free {
			return fmt.Sprintf("it writes %s below %s, which has %s left", bytesText(bytes), of.dir, bytesText(of.free))
		}
	}
	return ""
}

// elsewhere says which places lie on another disk than bare metal, which is first.
func (d disks) elsewhere(places []place.Place) (notes []string) {
	metal, err := d.of(places[0])
	if err != nil {
		return nil
	}
	for _, p := range places[1:] {
		if of, err := d.of(p); err == nil && of.id != metal.id {
			notes = append(notes, fmt.Sprintf("%s lies on another disk (%s) than bare metal (%s): its loss includes the disks' difference; "+
				"read its share of fio instead, or put --home on the engine's disk", p.Label(), of.dir, metal.dir))
		}
	}
	return notes
}

// unknown names the places whose disk is unknown.
func (d disks) unknown(places []place.Place) (notes []string) {
	for _, p := range places {
		if _, err := d.of(p); err != nil {
			notes = append(notes, fmt.Sprintf("%s: its disk is unknown (%v): free space was not checked, and fio shows no rate of that disk", p.Label(), err))
		}
	}
	return notes
}
