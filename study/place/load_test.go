package place

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tooBusy is how much of the tests' two CPUs others may take, in CPUs, with what
// the pair does still being its own doing. (Those who ask it are others too.)
const tooBusy = 0.25

// moment is how long CPUs 0 and 1 had been taken until then, by anybody or by the
// host below a virtual machine.
type moment struct {
	at    time.Time
	taken time.Duration
}

func now(t *testing.T) moment {
	t.Helper()
	file, err := os.Open("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m := moment{at: time.Now()}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 || fields[0] != "cpu0" && fields[0] != "cpu1" {
			continue
		}
		for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if i != 3 && i != 4 {
				m.taken += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
			}
		}
	}
	return m
}

// foreign is what others than the pair have taken since, in CPUs, the pair having had that.
func (m moment) foreign(t *testing.T, pair float64) float64 {
	t.Helper()
	since := now(t)
	return (since.taken-m.taken).Seconds()/since.at.Sub(m.at).Seconds() - pair
}
