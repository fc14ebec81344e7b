package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"tare/kernel/small"
)

// NoZswap says that this kernel has no compressed pool before its swap areas.
type NoZswap struct{ Why string }

func (n *NoZswap) Error() string {
	return fmt.Sprintf("this kernel has no zswap (%s): boot one built with CONFIG_ZSWAP", n.Why)
}

// Zswap is the compressed pool in memory that a page goes to before it goes to a swap
// area: what /sys/module/zswap/parameters holds. An area must be there all the same.
type Zswap struct {
	Enabled    bool   `json:"enabled"`
	Compressor string `json:"compressor"`
	// MaxPoolPercent bounds the pool, in percent of all memory.
	MaxPoolPercent int `json:"max_pool_percent"`
}

// Zswap reads it; the error is a [*NoZswap] where there is none.
func (h Host) Zswap() (Zswap, error) {
	var z Zswap
	enabled, err := h.zswap("enabled").Read()
	if errors.Is(err, fs.ErrNotExist) {
		return z, &NoZswap{"there is no " + h.zswap("enabled").File}
	}
	if err != nil {
		return z, err
	}
	z.Enabled = enabled == "Y"
	if z.Compressor, err = h.zswap("compressor").Read(); err != nil {
		return z, err
	}
	percent, err := h.zswap("max_pool_percent").Read()
	if err != nil {
		return z, err
	}
	if z.MaxPoolPercent, err = strconv.Atoi(percent); err != nil {
		return z, fmt.Errorf("%s: %w", h.zswap("max_pool_percent").File, err)
	}
	return z, nil
}

// ChangeZswap is what makes it so, in the order in which it is to be made: undone in
// the opposite one, so that it takes pages only while all of it is as wanted. An empty
// compressor and a percentage of 0 stay as they are.
//
// Pages that are in the pool stay there until they are wanted, or until their area is
// taken out of use.
func (h Host) ChangeZswap(wanted Zswap) ([]Change, error) {
	if _, err := h.Zswap(); err != nil {
		return nil, err
	}
	enabled := "N"
	if wanted.Enabled {
		enabled = "Y"
	}
	values := [][2]string{{"compressor", wanted.Compressor}, {"max_pool_percent", ""}, {"enabled", enabled}}
	if wanted.MaxPoolPercent > 0 {
		values[1][1] = strconv.Itoa(wanted.MaxPoolPercent)
	}
	if !wanted.Enabled {
		slices.Reverse(values)
	}
	var changes []Change
	for _, v := range values {
		if v[1] == "" {
			continue
		}
		c, err := h.zswap(v[0]).Change(v[1])
		if err != nil {
			return nil, err
		}
		if c.Old != c.New {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// ZswapPool is what zswap holds, of everybody's.
type ZswapPool struct {
	Held   int64 `json:"held_bytes"`   // memory that it takes
	Stored int64 `json:"stored_bytes"` // what went in, before it was compressed
}

// ZswapPool reads it: from /proc/meminfo, which has it since Linux 5.19, or else from
// debugfs, where that is mounted. The error is a [*NoZswap] where neither has it.
func (h Host) ZswapPool() (ZswapPool, error) {
	b, err := small.Read(h.path("proc/meminfo"))
	if err != nil {
		return ZswapPool{}, err
	}
	pool, isKnown, err := parseZswapPool(string(b))
	if isKnown || err != nil {
		return pool, err
	}
	held, err := number(h.path("sys/kernel/debug/zswap/pool_total_size"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return pool, &NoZswap{"neither /proc/meminfo nor debugfs reports its pool"}
	}
	if err != nil {
		return pool, err
	}
	pages, err := number(h.path("sys/kernel/debug/zswap/stored_pages"))
	if err != nil {
		return pool, err
	}
	return ZswapPool{Held: held, Stored: pages * int64(os.Getpagesize())}, nil
}

// parseZswapPool finds the pool's two lines in a /proc/meminfo.
func parseZswapPool(text string) (pool ZswapPool, isKnown bool, err error) {
	found := 0
	for line := range strings.SplitSeq(text, "\n") {
		name, rest, _ := strings.Cut(line, ":")
		to := map[string]*int64{"Zswap": &pool.Held, "Zswapped": &pool.Stored}[name]
		if to == nil {
			continue
		}
		if *to, err = kibibytes(strings.TrimSpace(strings.TrimSuffix(rest, "kB"))); err != nil {
			return ZswapPool{}, false, fmt.Errorf("/proc/meminfo: %s: %w", name, err)
		}
		found++
	}
	return pool, found == 2, nil
}

func number(file string) (int64, error) {
	text, err := Setting{file}.Read()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}
