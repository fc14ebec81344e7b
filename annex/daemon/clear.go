package daemon

import (
	"fmt"

	"tare/annex/media"
	"tare/kernel/swap"
)

// encrypted tells whether what leaves for a medium is encrypted on its device; nil where that is not known,
// or where it reaches none.
func encrypted(host swap.Host, m media.Medium) *bool {
	if m.Kind() == media.ZRAM {
		return nil
	}
	d, err := host.Below(m.Name())
	if err != nil {
		return nil
	}
	is, err := host.Encrypted(d)
	if err != nil {
		return nil
	}
	return &is
}

// InClear says of which swap areas memory is not known to be encrypted on the device.
func InClear() (notes []string, err error) {
	mediums, err := media.InUse(swap.Host{})
	for _, m := range mediums {
		notes = append(notes, inClear(m, encrypted(swap.Host{}, m))...)
	}
	return notes, err
}

func inClear(m media.Medium, encrypted *bool) []string {
	const mend = "keys and passwords of containers can be read there, also when annexd is gone: docs/annex/safety.md (Secrets in swap) says how to encrypt it"
	switch {
	case m.Kind() == media.ZRAM || encrypted != nil && *encrypted:
		return nil
	case encrypted == nil:
		return []string{fmt.Sprintf("whether %s is encrypted is not known; if it is not, %s", m.Name(), mend)}
	}
	return []string{fmt.Sprintf("%s is not encrypted (no dm-crypt below it): %s", m.Name(), mend)}
}
