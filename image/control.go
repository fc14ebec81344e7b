package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// stanza is one paragraph of a Debian control file (deb822): field names in
// lower case, since they are not case-sensitive.
type stanza map[string]string

// Longest line of a control file that is read: real ones stay below 100 KiB.
const longestControlLine = 4 << 20

// readStanzas reads a control file, such as a Packages index or what
// "apt-cache show" prints, and calls f for each paragraph until f fails.
func readStanzas(r io.Reader, f func(stanza) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), longestControlLine)
	current, field := stanza{}, ""
	flush := func() error {
		if len(current) == 0 {
			return nil
		}
		whole := current
		current, field = stanza{}, ""
		return f(whole)
	}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " \t\r")
		switch {
		case line == "":
			if err := flush(); err != nil {
				return err
			}
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if field == "" {
				return fmt.Errorf("line %d: a continuation without a field", n)
			}
			current[field] += "\n" + strings.TrimSpace(line)
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" || strings.ContainsAny(name, " \t") {
				return fmt.Errorf("line %d: neither field, continuation nor comment", n)
			}
			field = strings.ToLower(name)
			if _, twice := current[field]; twice {
				return fmt.Errorf("line %d: field %s stands twice", n, name)
			}
			current[field] = strings.TrimSpace(value)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("a line exceeds %d bytes", longestControlLine)
		}
		return err
	}
	return flush()
}
