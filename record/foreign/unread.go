package foreign

import (
	"fmt"
	"strconv"
	"strings"
)

// Kinds of what no figure is read from.
const (
	noResult  = "lines that hold no result"
	comments  = "lines that begin with #"
	empty     = "empty values, which count as not measured"
	failures  = "lines that tell of a failure"
	noOutcome = "benchmarks that began and have no result"
)

// unread counts what of the files no figure was read from, by kind: nothing is dropped
// without a word.
type unread struct {
	kinds []string
	count map[string]int
	first map[string]string
}

// add counts one. Text, where there is one, shows what it is.
func (u *unread) add(kind string, at position, text string) {
	if u.count == nil {
		u.count, u.first = map[string]int{}, map[string]string{}
	}
	if u.count[kind]++; u.count[kind] > 1 {
		return
	}
	u.kinds = append(u.kinds, kind)
	u.first[kind] = at.String()
	if text != "" {
		u.first[kind] += ": " + brief(text)
	}
}

// notes say what was counted, a line a kind.
func (u *unread) notes() []string {
	var all []string
	for _, kind := range u.kinds {
		where := "the first at"
		if u.count[kind] == 1 {
			where = "at"
		}
		all = append(all, fmt.Sprintf("not read: %d %s, %s %s", u.count[kind], kind, where, u.first[kind]))
	}
	return all
}

// brief is a text in quotes, no longer than one reads.
func brief(text string) string {
	const most = 60
	if cut := []rune(strings.TrimSpace(text)); len(cut) > most {
		return strconv.Quote(string(cut[:most])) + "…"
	}
	return strconv.Quote(strings.TrimSpace(text))
}
