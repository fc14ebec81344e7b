package procfs

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Interface is one line of /proc/PID/net/dev: a network interface, and the packets that went
// through it.
type Interface struct {
	Name           string
	Received, Sent uint64
}

// Interfaces are those of the network namespace that the process is in.
func (p Process) Interfaces() ([]Interface, error) { return parse(p, "net/dev", ParseInterfaces) }

// ParseInterfaces parses /proc/PID/net/dev.
func ParseInterfaces(r io.Reader) ([]Interface, error) {
	// After the name come eight columns of what was received and eight of what was sent. In both
	// the first is bytes and the second packets.
	const received, sent, columns = 1, 9, 16
	var all []Interface
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		if n <= 2 { // the heading
			continue
		}
		at := strings.LastIndexByte(scan.Text(), ':') // an alias has one in its name
		fields := strings.Fields(scan.Text()[at+1:])
		if at < 0 || len(fields) < columns {
			return nil, fmt.Errorf("%q: want a name, a colon and %d numbers", scan.Text(), columns)
		}
		i := Interface{Name: strings.TrimSpace(scan.Text()[:at])}
		for column, to := range map[int]*uint64{received: &i.Received, sent: &i.Sent} {
			var err error
			if *to, err = strconv.ParseUint(fields[column], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", i.Name, err)
			}
		}
		all = append(all, i)
	}
	return all, scan.Err()
}
