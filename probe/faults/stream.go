package faults

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
)

// slabRecords is how many records are kept in one piece: about 1 MiB.
const slabRecords = 1 << 14

// stream is the records of one CPU, in order of time.
type stream struct {
	cpu   int32
	slabs [][]byte
	n     int // records
	// notes has a byte for each record, once the recording is over.
	notes []note
}

// note is what is known of a fault from what came after it.
type note uint8

const (
	noteKnown note = 1 << iota // whether it was major
	noteMajor
)

// record gives one record's bytes.
func (s *stream) record(i int) []byte {
	at := i % slabRecords * recordSize
	return s.slabs[i/slabRecords][at : at+recordSize]
}

// room gives where at most n records go next, which is at least one.
func (s *stream) room(n int) []byte {
	if s.n == len(s.slabs)*slabRecords {
		s.slabs = append(s.slabs, make([]byte, slabRecords*recordSize))
	}
	at := s.n % slabRecords
	n = min(n, slabRecords-at)
	return s.slabs[len(s.slabs)-1][at*recordSize : (at+n)*recordSize]
}

// fault decodes one record, or reports that it is none of a fault.
func (s *stream) fault(i int) (raw, bool) {
	b := s.record(i)
	if mappingRecord(b) {
		return raw{}, false
	}
	r := decodeFault(b)
	r.fault.CPU = s.cpu
	r.fault.Mapping = s.mapping(i, r.mapping, r.fault.Address)
	r.fault.Code = s.mapping(i, r.code, r.fault.IP)
	if i < len(s.notes) {
		r.fault.Major = s.notes[i]&noteMajor != 0
		r.fault.MajorKnown = s.notes[i]&noteKnown != 0
	}
	return r, true
}

// mapping decodes the mapping that record i refers to by how far back it stands, as
// it is at an address.
func (s *stream) mapping(i int, back uint32, address uint64) Mapping {
	if back == 0 || int64(back) > int64(i) {
		return Mapping{}
	}
	b := s.record(i - int(back))
	if !mappingRecord(b) {
		return Mapping{}
	}
	return decodeMapping(b, address)
}

// rings is what the programs write and the reader reads, a ring a CPU.
type rings struct {
	ring, heads *ebpf.Memory
	slots       uint64 // of one ring, a power of two
	read        []uint64
	streams     []*stream
	keep        int // records at most, of all
	kept        int
}

func newRings(collection *ebpf.Collection, cpus int, slots uint64, keep int) (*rings, error) {
	r := &rings{slots: slots, read: make([]uint64, cpus), keep: keep}
	var err error
	if r.ring, err = collection.Maps[objectMapRing].Memory(); err != nil {
		return nil, fmt.Errorf("map the rings: %w", err)
	}
	if r.heads, err = collection.Maps[objectMapHeads].Memory(); err != nil {
		return nil, fmt.Errorf("map the rings' heads: %w", err)
	}
	for cpu := range cpus {
		r.streams = append(r.streams, &stream{cpu: int32(cpu)})
	}
	return r, nil
}

func (r *rings) word(cpu, member int) (uint64, error) {
	var b [8]byte
	if _, err := r.heads.ReadAt(b[:], int64(cpu*headSize+member*8)); err != nil {
		return 0, fmt.Errorf("read the head of CPU %d's ring: %w", cpu, err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// drain takes what has been written since, and says how full the fullest ring
// was, from 0 to 1.
func (r *rings) drain() (fullest float64, err error) {
	for cpu := range r.read {
		written, err := r.word(cpu, 0)
		if err != nil {
			return 0, err
		}
		waiting := written - r.read[cpu]
		if waiting == 0 {
			continue
		}
		fullest = max(fullest, float64(waiting)/float64(r.slots))
		if err := r.take(cpu, waiting); err != nil {
			return 0, err
		}
	}
	return fullest, nil
}

func (r *rings) take(cpu int, waiting uint64) error {
	s := r.streams[cpu]
	for waiting > 0 {
		at := r.read[cpu] & (r.slots - 1)
		n := min(waiting, r.slots-at)
		if r.kept+int(min(n, slabRecords)) <= r.keep {
			room := s.room(int(min(n, slabRecords)))
			if _, err := r.ring.ReadAt(room, int64((uint64(cpu)*r.slots+at)*recordSize)); err != nil {
				return fmt.Errorf("read CPU %d's ring: %w", cpu, err)
			}
			n = uint64(len(room) / recordSize)
			s.n += int(n)
			r.kept += int(n)
		} else {
			// What is not kept stays in the counts.
			r.keep = 0
		}
		waiting -= n
		r.read[cpu] += n
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], r.read[cpu])
		if _, err := r.heads.WriteAt(b[:], int64(cpu*headSize+8)); err != nil {
			return fmt.Errorf("give back room in CPU %d's ring: %w", cpu, err)
		}
	}
	return nil
}

// lost counts the faults for which there was no room.
func (r *rings) lost() (n uint64, err error) {
	for cpu := range r.read {
		lost, err := r.word(cpu, 2)
		if err != nil {
			return 0, err
		}
		n += lost
	}
	return n, nil
}
