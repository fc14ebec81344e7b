package swap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// VMStat are the whole kernel's counts since boot of what concerns swap, named as in
// /proc/vmstat (mm/vmstat.c), in pages unless said otherwise. One that this kernel
// does not have is 0, and its name is in Absent.
type VMStat struct {
	PSwpIn        int64 `json:"pswpin"`     // read from an area, whatever it is
	PSwpOut       int64 `json:"pswpout"`    // written to one
	SwpInZero     int64 `json:"swpin_zero"` // pages full of zeros, which since Linux 6.12 are not written
	SwpOutZero    int64 `json:"swpout_zero"`
	ZswpIn        int64 `json:"zswpin"` // from zswap's pool
	ZswpOut       int64 `json:"zswpout"`
	ZswpWb        int64 `json:"zswpwb"`        // from the pool to the area behind it
	PgMajFault    int64 `json:"pgmajfault"`    // faults that had to wait for a device
	PgScanDirect  int64 `json:"pgscan_direct"` // looked at by who wanted memory himself
	PgStealDirect int64 `json:"pgsteal_direct"`
	PgScanKswapd  int64 `json:"pgscan_kswapd"` // looked at by the kernel's own reclaimer
	PgStealKswapd int64 `json:"pgsteal_kswapd"`
	SwapRA        int64 `json:"swap_ra"` // read ahead, by vm.page-cluster
	SwapRAHit     int64 `json:"swap_ra_hit"`
	RefaultAnon   int64 `json:"workingset_refault_anon"` // back soon after they left
	OOMKill       int64 `json:"oom_kill"`                // processes, not pages

	Absent []string `json:"absent,omitempty"`
}

func (v *VMStat) fields() []vmField {
	return []vmField{
		{"pswpin", &v.PSwpIn}, {"pswpout", &v.PSwpOut},
		{"swpin_zero", &v.SwpInZero}, {"swpout_zero", &v.SwpOutZero},
		{"zswpin", &v.ZswpIn}, {"zswpout", &v.ZswpOut}, {"zswpwb", &v.ZswpWb},
		{"pgmajfault", &v.PgMajFault},
		{"pgscan_direct", &v.PgScanDirect}, {"pgsteal_direct", &v.PgStealDirect},
		{"pgscan_kswapd", &v.PgScanKswapd}, {"pgsteal_kswapd", &v.PgStealKswapd},
		{"swap_ra", &v.SwapRA}, {"swap_ra_hit", &v.SwapRAHit},
		{"workingset_refault_anon", &v.RefaultAnon}, {"oom_kill", &v.OOMKill},
	}
}

type vmField struct {
	name string
	to   *int64
}

// VMStat reads this host's.
func (h Host) VMStat() (VMStat, error) {
	f, err := os.Open(h.path("proc/vmstat"))
	if err != nil {
		return VMStat{}, err
	}
	defer f.Close()
	return ParseVMStat(f)
}

// ParseVMStat reads a /proc/vmstat.
func ParseVMStat(r io.Reader) (VMStat, error) {
	var v VMStat
	wanted := map[string]*int64{}
	for _, f := range v.fields() {
		wanted[f.name] = f.to
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		to, ok := wanted[name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return VMStat{}, fmt.Errorf("/proc/vmstat: %s is %q, want a count", name, text)
		}
		*to = n
		delete(wanted, name)
	}
	if err := lines.Err(); err != nil {
		return VMStat{}, fmt.Errorf("/proc/vmstat: %w", err)
	}
	for _, f := range v.fields() {
		if _, missing := wanted[f.name]; missing {
			v.Absent = append(v.Absent, f.name)
		}
	}
	return v, nil
}
