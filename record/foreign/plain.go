package foreign

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// plain gives a file's text in UTF-8, without a byte-order mark and in lines, which is how
// all formats are read. Spreadsheets and PowerShell write UTF-16, as its mark shows, and
// some end lines by carriage returns alone. It refuses other bytes: a guess at their
// encoding may be wrong.
func plain(file string, data []byte) ([]byte, error) {
	for mark, order := range map[string]binary.ByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		if after, ok := bytes.CutPrefix(data, []byte(mark)); ok {
			return fromUTF16(file, after, order)
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.IndexByte(data, 0) < 0 && utf8.Valid(data) {
		if bytes.IndexByte(data, '\n') < 0 {
			data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
		}
		return data, nil
	}
	at := bytes.IndexFunc(data, func(r rune) bool { return r == 0 || r == utf8.RuneError })
	in := position{file, 1 + bytes.Count(data[:at], []byte("\n"))}
	if data[at] == 0 {
		return nil, malformed(in, "a zero byte, which no text has: save it as text in UTF-8")
	}
	return nil, malformed(in,
		"byte %#x is not UTF-8: save it in UTF-8, such as by iconv -f WINDOWS-1252 -t UTF-8", data[at])
}

func fromUTF16(file string, data []byte, order binary.ByteOrder) ([]byte, error) {
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	text := []byte(string(utf16.Decode(units)))
	if at := bytes.IndexAny(text, "\x00\ufffd"); at >= 0 || len(data)%2 != 0 {
		line := 1 + bytes.Count(text[:max(at, 0)], []byte("\n"))
		return nil, malformed(position{file, line},
			"not UTF-16, though its first bytes say so: save it as text in UTF-8")
	}
	return text, nil
}
