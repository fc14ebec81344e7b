package annexd

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/kernel/clock"
)

// notifier tells systemd how the daemon stands: sd_notify(3). Of a daemon that systemd did not
// start it tells nobody.
type notifier struct {
	socket   string
	watchdog time.Duration // after which systemd takes a silent daemon for hung; 0 is never
}

// notifies reads what systemd has put into the environment: where it listens, and how often it
// wants to hear of process pid.
func notifies(environ func(string) string, pid int) notifier {
	n := notifier{socket: environ("NOTIFY_SOCKET")}
	micros, err := strconv.ParseInt(environ("WATCHDOG_USEC"), 10, 64)
	if whose := environ("WATCHDOG_PID"); err == nil && micros > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		n.watchdog = time.Duration(micros) * time.Microsecond
	}
	return n
}

// The states that systemd knows.
const (
	ready    = "READY=1"
	stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// reloading says that a reload begins. The moment tells systemd which reload is meant.
func reloading() string {
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", clock.Monotonic().Microseconds())
}

// doing is what systemctl status shows, of one line.
func doing(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", "; ") }

// tell tells states. That systemd does not hear it is no reason to end.
func (n notifier) tell(states ...string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // where systemd does not read
	_, _ = c.Write([]byte(strings.Join(states, "\n")))
}

// attend tells at each third of the watchdog's time that the daemon lives, as long as it answers,
// until ctx ends.
func (n notifier) attend(ctx context.Context, answers func(context.Context) error) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 3)
	defer tick.Stop()
	for {
		if answers(ctx) == nil {
			n.tell(alive)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// systemd is what started this program.
func systemd() notifier { return notifies(os.Getenv, os.Getpid()) }
