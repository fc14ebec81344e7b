package kit

import (
	"fmt"

	"tare/platform"
)

// Host is what a design must know of the machine.
type Host struct {
	CPUs   []int // that tare may use
	Memory int64 // bytes
	Caches int64 // bytes of all its last-level caches; 0 where unknown
	// Platform resolves a name, and Check reports whether a platform can be used.
	Platform func(name string) (platform.Platform, error)
	Check    func(p platform.Platform) error
}

// Find resolves a platform that can be used.
func (h Host) Find(name string) (platform.Platform, error) {
	p, err := h.Platform(name)
	if err != nil {
		return nil, &Usage{err.Error()}
	}
	if err := h.Check(p); err != nil {
		return nil, fmt.Errorf("platform %s: %w", name, err)
	}
	return p, nil
}

// FindFor is Find for a platform that is to support a setting.
func (h Host) FindFor(name string, s platform.Setting) (platform.Platform, error) {
	p, err := h.Find(name)
	if err != nil {
		return nil, err
	}
	if err := p.Supports(s); err != nil {
		return nil, fmt.Errorf("platform %s: %w", name, err)
	}
	return p, nil
}
