package workload

import "strings"

// What the functions must find, worked out a second time from the input's
// definition (programs/functions/input.h) and in another manner: by cutting
// strings from the outside inwards, where the programs go from byte to byte.

const functionPage = 4096

// splitmix is the input's generator (Steele, Lea, Flood, OOPSLA 2014).
type splitmix uint64

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s *splitmix) below(bound uint64) int {
	*s += 0x9e3779b97f4a7c15
	return int(mix(uint64(*s)) % bound)
}

func (s *splitmix) letters(to []byte, least, most int) []byte {
	for n := least + s.below(uint64(most-least+1)); n > 0; n-- {
		to = append(to, "abcdefghijklmnopqrstuvwxyz0123456789"[s.below(36)])
	}
	return to
}

func (s *splitmix) key(to []byte) []byte { return s.letters(to, 8, 40) }

func (s *splitmix) uri(to []byte) []byte {
	to = append(to, []string{"http", "https", "ftp", "ws"}[s.below(4)]...)
	to = s.letters(append(to, "://"...), 3, 10)
	if s.below(2) == 1 {
		to = s.letters(append(to, '.'), 3, 10)
	}
	to = append(to, []string{".com", ".org", ".net", ".edu"}[s.below(4)]...)
	if s.below(4) == 0 {
		to = append(to, ":8"...)
		for range 3 {
			to = append(to, byte('0'+s.below(10)))
		}
	}
	for n := 1 + s.below(5); n > 0; n-- {
		to = s.letters(append(to, '/'), 1, 12)
	}
	if s.below(2) == 1 {
		before := byte('?')
		for n := 1 + s.below(3); n > 0; n-- {
			to = s.letters(append(to, before), 1, 8)
			to = s.letters(append(to, '='), 1, 8)
			before = '&'
		}
	}
	if s.below(4) == 0 {
		to = s.letters(append(to, '#'), 1, 8)
	}
	return to
}

// records hands each record that a function must take to take, with its offset.
func records(
	pages int,
	sparse bool,
	write func(*splitmix, []byte) []byte,
	take func(record string, offset int),
) (count int64) {
	const seed = 1 // the programs' default
	part := functionPage
	if sparse {
		part /= 5
	}
	var record []byte
	for page := range pages {
		s := splitmix(mix(seed ^ mix(uint64(page)+1)))
		for used := 0; ; used += len(record) + 1 {
			record = write(&s, record[:0])
			if used+len(record)+1 > part {
				break
			}
			take(string(record), page*functionPage+used)
			count++
		}
	}
	return count
}

// fold adds to a checksum as the programs do (FNV-1a, eight bytes at once).
func (c *checksum) fold(n uint64) { *c = (*c ^ checksum(n)) * 0x100000001b3 }

const foldStart checksum = 0xcbf29ce484222325

func indexesOf(pages int, sparse bool) found {
	f := found{checksum: foldStart}
	f.records = records(pages, sparse, (*splitmix).key, func(key string, _ int) {
		var hash uint64
		for i := range len(key) {
			hash = hash*65599 + uint64(key[i])
		}
		f.checksum.fold(hash % 1048573)
		f.results++
	})
	return f
}

// The kinds of tokens, in the program's order.
const (
	schemeToken = iota
	hostToken
	portToken
	segmentToken
	nameToken
	valueToken
	fragmentToken
)

func tokensOf(pages int, sparse bool) found {
	f := found{checksum: foldStart}
	f.records = records(pages, sparse, (*splitmix).uri, func(uri string, offset int) {
		keep := func(kind uint64, text string) {
			f.checksum.fold(kind)
			f.checksum.fold(uint64(offset))
			f.checksum.fold(uint64(len(text)))
			f.results++
			offset += len(text) + 1
		}
		scheme, rest, _ := strings.Cut(uri, "://")
		keep(schemeToken, scheme)
		offset += len("//")
		rest, fragment, hasFragment := strings.Cut(rest, "#")
		rest, query, hasQuery := strings.Cut(rest, "?")
		authority, path, _ := strings.Cut(rest, "/")
		host, port, hasPort := strings.Cut(authority, ":")
		keep(hostToken, host)
		if hasPort {
			keep(portToken, port)
		}
		for segment := range strings.SplitSeq(path, "/") {
			keep(segmentToken, segment)
		}
		if hasQuery {
			for pair := range strings.SplitSeq(query, "&") {
				name, value, _ := strings.Cut(pair, "=")
				keep(nameToken, name)
				keep(valueToken, value)
			}
		}
		if hasFragment {
			keep(fragmentToken, fragment)
		}
	})
	return f
}
