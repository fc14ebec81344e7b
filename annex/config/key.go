package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A key is one line of a configuration: what it is called, what it may say, and where that
// is kept in a T.
type key[T any] struct {
	name   string // within its table
	values string // what it may say: "a size from 1MiB to 1TiB"
	doc    string // one sentence or two, for whoever reads the file
	// fixed tells that a change takes effect when the daemon is started anew.
	fixed bool
	// set takes a value as TOML has it, and get writes one as TOML; empty where there is
	// nothing to write.
	set func(to *T, value any) error
	get func(from *T) string
	// keep has one say what another does.
	keep func(to, from *T)
}

// keeps is what keep is where a value lies at one place.
func keeps[T, V any](at func(*T) *V) func(to, from *T) {
	return func(to, from *T) { *at(to) = *at(from) }
}

// errEmpty is of what must say something.
var errEmpty = errors.New("is empty: leave the key out, or say what it is")

func text(value any, example string) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("is %s: want a text in quotes, as %q", kindOf(value), example)
	}
	return s, nil
}

// kindOf names what was found instead.
func kindOf(value any) string {
	switch v := value.(type) {
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case bool:
		return fmt.Sprintf("%t", v)
	case string:
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return fmt.Sprintf("%v", value)
}

func sizeKey[T any](name, doc string, least, most int64, at func(*T) *int64) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: "a size from " + FormatSize(least) + " to " + FormatSize(most),
		set:    func(to *T, value any) error { return setSize(at(to), value, least, most, "", "64MiB") },
		get:    func(from *T) string { return strconv.Quote(FormatSize(*at(from))) },
	}
}

// boundKey is a size that need not be given: 0 is no bound, and not written.
func boundKey[T any](name, doc, unit, example string, least, most int64, at func(*T) *int64) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: "a size from " + FormatSize(least) + unit + " to " + FormatSize(most) + unit,
		set:    func(to *T, value any) error { return setSize(at(to), value, least, most, unit, example) },
		get: func(from *T) string {
			if *at(from) == 0 {
				return ""
			}
			return strconv.Quote(FormatSize(*at(from)) + unit)
		},
	}
}

func setSize(to *int64, value any, least, most int64, unit, example string) error {
	s, err := text(value, example)
	if err != nil {
		return err
	}
	number, ok := strings.CutSuffix(s, unit)
	if !ok {
		return fmt.Errorf("is %q: want it as %q", s, example)
	}
	n, err := ParseSize(number)
	if err != nil {
		return fmt.Errorf("%w: want it as %q", err, example)
	}
	if n < least || n > most {
		return fmt.Errorf("is %s: want %s%s to %s%s", s, FormatSize(least), unit, FormatSize(most), unit)
	}
	*to = n
	return nil
}

func durationKey[T any](name, doc string, least, most time.Duration, at func(*T) *time.Duration) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: "a time from " + FormatDuration(least) + " to " + FormatDuration(most),
		set: func(to *T, value any) error {
			s, err := text(value, "5s")
			if err != nil {
				return err
			}
			d, err := time.ParseDuration(s)
			if err != nil {
				return fmt.Errorf("is %q: want a time with its unit, as \"200ms\", \"5s\" or \"1m30s\"", s)
			}
			if d < least || d > most {
				return fmt.Errorf("is %s: want %s to %s", s, FormatDuration(least), FormatDuration(most))
			}
			*at(to) = d
			return nil
		},
		get: func(from *T) string { return strconv.Quote(FormatDuration(*at(from))) },
	}
}

func shareKey[T any](name, doc string, least, most float64, at func(*T) *float64) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: "a share from " + FormatShare(least) + " to " + FormatShare(most),
		set: func(to *T, value any) error {
			s, err := text(value, "10%")
			if err != nil {
				return err
			}
			share, err := ParseShare(s)
			if err != nil {
				return err
			}
			if share < least || share > most {
				return fmt.Errorf("is %s: want %s to %s", s, FormatShare(least), FormatShare(most))
			}
			*at(to) = share
			return nil
		},
		get: func(from *T) string { return strconv.Quote(FormatShare(*at(from))) },
	}
}

func countKey[T any](name, doc string, least, most int, at func(*T) *int) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: fmt.Sprintf("a number from %d to %d", least, most),
		set: func(to *T, value any) error {
			n, ok := value.(int64)
			if !ok {
				return fmt.Errorf("is %s: want a whole number", kindOf(value))
			}
			if n < int64(least) || n > int64(most) {
				return fmt.Errorf("is %d: want %d to %d", n, least, most)
			}
			*at(to) = int(n)
			return nil
		},
		get: func(from *T) string { return strconv.Itoa(*at(from)) },
	}
}

func switchKey[T any](name, doc string, at func(*T) *bool) key[T] {
	return key[T]{
		name: name, doc: doc,
		keep:   keeps(at),
		values: "true or false",
		set: func(to *T, value any) error {
			on, ok := value.(bool)
			if !ok {
				return fmt.Errorf("is %s: want true or false, without quotes", kindOf(value))
			}
			*at(to) = on
			return nil
		},
		get: func(from *T) string { return strconv.FormatBool(*at(from)) },
	}
}

func choiceKey[T any, C ~string](name, doc string, choices []C, at func(*T) *C) key[T] {
	var quoted []string
	for _, c := range choices {
		quoted = append(quoted, strconv.Quote(string(c)))
	}
	last := len(quoted) - 1
	words := strings.Join(quoted[:last], ", ") + " or " + quoted[last]
	return key[T]{
		name: name, doc: doc, values: words,
		keep: keeps(at),
		set: func(to *T, value any) error {
			s, err := text(value, string(choices[0]))
			if err != nil {
				return err
			}
			if !slices.Contains(choices, C(s)) {
				return fmt.Errorf("is %q: want %s", s, words)
			}
			*at(to) = C(s)
			return nil
		},
		get: func(from *T) string {
			if *at(from) == "" {
				return ""
			}
			return strconv.Quote(string(*at(from)))
		},
	}
}

// textKey is a text for which valid finds no fault. Where it may be empty, empty says so.
func textKey[T any](
	name, values, doc, example string,
	mayBeEmpty bool,
	valid func(string) error,
	at func(*T) *string,
) key[T] {
	return key[T]{
		name: name, doc: doc, values: values,
		keep: keeps(at),
		set: func(to *T, value any) error {
			s, err := text(value, example)
			if err != nil {
				return err
			}
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return fmt.Errorf("is %q: control characters are of no use here", s)
			}
			switch {
			case s != "":
				err = valid(s)
			case !mayBeEmpty:
				err = errEmpty
			}
			if err != nil {
				return err
			}
			*at(to) = s
			return nil
		},
		get: func(from *T) string { return quote(*at(from)) },
	}
}

// patternKey is a text that need not be given, and is not written where it is not.
func patternKey[T any](name, values, doc, example string, valid func(string) error, at func(*T) *string) key[T] {
	k := textKey(name, values, doc, example, false, valid, at)
	k.get = func(from *T) string {
		if *at(from) == "" {
			return ""
		}
		return quote(*at(from))
	}
	return k
}

// quote writes a text as a TOML string: a basic one, whose escapes are fewer than Go's.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func absolute(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s {
		return fmt.Errorf("is %q: want a whole path, from / on and without \"..\" or a / at its end", s)
	}
	return nil
}

// LongestSocket is how long the path of a Unix socket may be: the 108 bytes of an address'
// sun_path, less the zero that ends it. See unix(7).
const LongestSocket = 107

// address is the path of a Unix socket.
func address(s string) error {
	if err := absolute(s); err != nil {
		return err
	}
	if len(s) > LongestSocket {
		return fmt.Errorf("is a path of %d bytes, and the address of a Unix socket has %d at most: want a shorter one", len(s), LongestSocket)
	}
	return nil
}
