package workload

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/load"
)

// bookingPorts has the site's three programs answer at ports that are free.
func bookingPorts(t *testing.T, pairs ...string) []string {
	t.Helper()
	return append(pairs, "port", freePort(t), "auth-port", freePort(t), "db-port", freePort(t))
}

// loadBooking loads a ready site in both manners, and looks whether all was answered
// rightly that was sent: a slow host does not come to send it all.
func loadBooking(t *testing.T, tr *realTrial, p Params) {
	t.Helper()
	for _, rate := range []string{"100", closed} {
		p["rate"] = rate
		r, err := booking{}.Load(t.Context(), tr, 1)
		if err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		if r.Requests == 0 || r.Failed() > r.Errors[load.KindUnsent] {
			t.Errorf("rate %s: %v", rate, tooManyErrors(r))
		}
		t.Logf("rate %s: %.0f requests/s, p50 %d us, p99 %d us", rate, r.Rate, r.Corrected.ValueAtQuantile(50), r.Corrected.ValueAtQuantile(99))
	}
}

func TestRealBooking(t *testing.T) {
	t.Parallel()
	img := realImage(t, "booking")
	w := booking{}
	p := resolve(t, w, bookingPorts(t, "customers", "500", "duration", "2500ms", "warmup", "500ms", "rate", "50")...)
	tr := launch(t, w, p, scratchRoot(t, img), func([]string) {}, syscall.CLONE_NEWPID)
	tr.address = "127.0.0.1:" + p["port"]
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatalf("%v; it printed %s", err, lastWords(tr))
	}
	checkRecorded(t, w, &tr.trial)
	loadBooking(t, tr, p)
	walkBooking(t, tr, p)
	tr.end()
	if _, stderr := tr.Output(); strings.Contains(string(stderr), "Error") || strings.Contains(string(stderr), "Exception") {
		t.Errorf("it complains: %s", stderr)
	}
}

// walkBooking has one connection go through some visits; in the end what every user of
// its has is what the visits leave him.
func walkBooking(t *testing.T, tr *realTrial, p Params) {
	t.Helper()
	plan, err := planOf[bookingPlan](p)
	if err != nil {
		t.Fatal(err)
	}
	// Few users, so that each comes often and is held to what he did before.
	target := plan.target(tr, 7)
	target.users = newBookingUsers(3, 7)
	r, err := load.Run(t.Context(), target, load.Options{Connections: 2, Count: 300})
	if err := answered(r, err); err != nil {
		t.Fatal(err)
	}
	for _, user := range target.users.all {
		if user.unsure || user.bookings == nil {
			t.Errorf("of %s nothing is known after %d requests", user.name, r.Requests)
		}
	}
}

// Each of the three programs in a process of its own, as in containers of their own. The
// application says until the authentication service listens that it is not ready, and
// nothing of it where errors are reported.
func TestRealBookingDivided(t *testing.T) {
	t.Parallel()
	root := scratchRoot(t, realImage(t, "booking"))
	w := booking{}
	p := resolve(t, w, bookingPorts(t, "customers", "300", "storage", "memory", "duration", "1s", "warmup", "200ms")...)
	parts, err := w.Parts(p)
	if err != nil {
		t.Fatal(err)
	}
	address := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	begin := func(name string) *realTrial {
		part := parts[slices.IndexFunc(parts, func(part Part) bool { return part.Name == name })]
		program := part.Program(func(_ string, port int) string { return address(port) })
		tr := launch(t, alone{w, program}, p, root, func([]string) {}, syscall.CLONE_NEWPID)
		tr.address = address(program.Ports[0])
		if part.Ready != nil {
			if err := part.Ready(t.Context(), address); err != nil {
				t.Fatalf("%s: %v; it printed %s", name, err, lastWords(tr))
			}
		}
		return tr
	}
	begin(bookingDatabase)
	application := begin(bookingApplication)
	early := load.HTTP{Address: application.address, Path: bookingPath + "config", Status: http.StatusServiceUnavailable, NewConnections: true}
	err = awaitReady(t.Context(), bookingReadyWithin, "the application says that it is not ready", func(ctx context.Context) error {
		return askHTTP(ctx, early)
	})
	if err != nil {
		t.Fatalf("%v; it printed %s", err, lastWords(application))
	}
	begin(bookingAuth)
	if err := w.Ready(t.Context(), application); err != nil {
		t.Fatal(err)
	}
	loadBooking(t, application, p)
	application.end()
	if _, stderr := application.Output(); len(stderr) > 0 {
		t.Errorf("it complains: %s", stderr)
	}
}

// alone is a workload of which one program runs.
type alone struct {
	Workload
	program Program
}

func (a alone) Program(Params) (Program, error) { return a.program, nil }
