package report

import (
	"sort"
	"strings"

	"tare/record"
)

// sharedParams writes the workload's parameters that all its conditions share,
// as "clients=50 pipeline=1".
func sharedParams(run record.Run, workload string) string {
	shared := map[string]string{}
	seen := false
	for _, c := range run.Conditions {
		if c.Workload != workload {
			continue
		}
		if !seen {
			for k, v := range c.Params {
				shared[k] = v
			}
			seen = true
			continue
		}
		for k, v := range shared {
			if other, ok := c.Params[k]; !ok || other != v {
				delete(shared, k)
			}
		}
	}
	pairs := make([]string, 0, len(shared))
	for k, v := range shared {
		pairs = append(pairs, clean(k)+"="+clean(v))
	}
	sort.Strings(pairs)
	return strings.Join(pairs, " ")
}
