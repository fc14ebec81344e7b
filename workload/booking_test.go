package workload

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/load"
)

func TestBookingProgram(t *testing.T) {
	w := booking{}
	p := resolve(t, w, "port", "1001", "auth-port", "1002", "db-port", "1003", "storage", "mapped", "heap", "33", "old-space", "49")
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	command := strings.Join(program.Args, " ")
	for _, want := range []string{
		image.Supervise + " " + image.BookingJava + " -Xmx33m ", "@" + image.BookingDatabase + " 127.0.0.1 1003 nioMapped:/data/booking.mv -- ",
		"-- " + image.BookingNode + " --max-old-space-size=49 ", image.BookingAuth + " --address 127.0.0.1 --port 1002 --database 127.0.0.1:1003 -- ",
		image.BookingApplication + " --address 0.0.0.0 --port 1001 --auth 127.0.0.1:1002 --database 127.0.0.1:1003",
	} {
		if !strings.Contains(command, want) {
			t.Errorf("%q is not in %s", want, command)
		}
	}
	if !slices.Equal(program.Ports, []int{1001}) || !program.Service {
		t.Errorf("%+v", program)
	}

	// The other two are nobody's but the application's, wherever that listens.
	placed, params, err := At(w, p, Place{Port: 2001, Listen: "127.0.0.2"})
	command = strings.Join(placed.Args, " ")
	for _, want := range []string{
		" 127.0.0.1 2003 ", "auth.js --address 127.0.0.1 --port 2002 ", "app.js --address 127.0.0.2 --port 2001 --auth 127.0.0.1:2002 --database 127.0.0.1:2003",
	} {
		if err != nil || !strings.Contains(command, want) {
			t.Errorf("%q is not in %s (%v)", want, command, err)
		}
	}
	// With a container each they listen where the others reach them.
	if parts, err := w.Parts(params); err != nil || !strings.Contains(strings.Join(parts[0].Program(nil).Args, " "), " 127.0.0.2 2003 ") {
		t.Errorf("%v, %v", parts, err)
	}

	parts, err := w.Parts(p)
	if err != nil {
		t.Fatal(err)
	}
	var need int64
	var names []string
	for _, part := range parts {
		names = append(names, part.Name)
		alone := part.Program(func(part string, port int) string { return net.JoinHostPort(part+".test", strconv.Itoa(port)) })
		need += alone.MemoryNeed
		command = strings.Join(alone.Args, " ")
	}
	if want := []string{"database", "authentication", "application"}; !slices.Equal(names, want) {
		t.Errorf("parts %q, want %q", names, want)
	}
	// The last is the one that clients reach, and finds the others where they are.
	if !strings.HasSuffix(command, "--port 1001 --auth authentication.test:1002 --database database.test:1003") {
		t.Errorf("the application is %s", command)
	}
	if need != program.MemoryNeed {
		t.Errorf("the parts need %d bytes, the whole %d", need, program.MemoryNeed)
	}
}

// MongoDB's own server can be had by an image that adds it.
func TestBookingOnMongoDB(t *testing.T) {
	program, err := booking{}.Program(resolve(t, booking{}, "database", "mongod"))
	if err != nil || !slices.Contains(program.Needs, "/usr/bin/mongod") || slices.Contains(program.Args, image.BookingJava) {
		t.Errorf("%+v, %v", program, err)
	}
}

func TestBookingRefuses(t *testing.T) {
	for _, c := range [][]string{
		{"port", "0"}, {"auth-port", "9080"}, {"db-port", "9081"}, {"users", "7", "connections", "8"}, {"users", "11", "customers", "10"},
		{"bookings", "-1"}, {"storage", "tape"}, {"database", "other"}, {"heap", "1"}, {"old-space", "8"}, {"rate", "0"}, {"customers", "0"},
	} {
		overrides := map[string]string{}
		for i := 0; i < len(c); i += 2 {
			overrides[c[i]] = c[i+1]
		}
		_, err := Resolve(booking{}, overrides)
		refusedAs[*WrongValue](t, err, c[0]+"=")
	}
}

// A right site is filled once, and all that its users ask for is answered rightly, in
// both manners of loading.
func TestBookingVisits(t *testing.T) {
	f, tr := serveBooking(t, "")
	if err := (booking{}).Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, booking{}, tr)
	tr.params["rate"], tr.params["count"] = "5000", "100"
	r, err := booking{}.Load(t.Context(), tr, 2)
	if err := answered(r, err); err != nil || r.Requests != 100 || r.Lateness.TotalCount()+r.Queued.TotalCount() == 0 {
		t.Errorf("in an open loop %d requests: %v", r.Requests, err)
	}
	for _, path := range []string{"login", "login/logout", "flights/queryflights", "bookings/bookflights", "bookings/byuser/", "bookings/cancelbooking", "customer/byid/"} {
		if f.asked[path] == 0 {
			t.Errorf("nobody asked for %s: %v", path, f.asked)
		}
	}
	if f.asked["config/load"] != 1 {
		t.Errorf("it was filled %d times", f.asked["config/load"])
	}
	// Five queries a visit, but for the visits that the end cut off.
	if visits, queries := f.asked["login/logout"], f.asked["flights/queryflights"]; queries < 5*visits || queries > 5*f.asked["login"] {
		t.Errorf("%d queries in %d visits", queries, visits)
	}
}

// Each thing that a site can do wrong is reported, and is no request that counts.
func TestBookingTellsWrongAnswers(t *testing.T) {
	for wrong, want := range map[string]string{
		"session":   "has no session",
		"user":      "logged in, and is",
		"legs":      "legs was asked for",
		"airports":  "was asked for, and",
		"day":       "was asked for, and",
		"absent":    "flies",
		"one way":   "the bookings are",
		"unbooked":  "is not listed",
		"other's":   "among them",
		"cancel":    "was cancelled, and the answer is",
		"cancelled": "(any more), and it is listed",
		"unchanged": "has changed his profile",
		"forgotten": "the profile of",
		"logout":    "logged out, and the answer is",
	} {
		t.Run(wrong, func(t *testing.T) {
			_, tr := serveBooking(t, wrong)
			tr.params["users"] = "8" // who come again soon
			r, err := booking{}.Load(t.Context(), tr, 1)
			if err == nil && r.Errors["body"] == 0 {
				t.Fatalf("%d requests are right, and %v", r.Requests, r.Errors)
			}
			if err == nil {
				err = r.FirstError
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func TestBookingIsNotReadyWithoutItsData(t *testing.T) {
	_, tr := serveBooking(t, "data")
	if err := (booking{}).Ready(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "Flights:1969") {
		t.Errorf("%v, want what it has", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	tr.address = "127.0.0.1:" + freePort(t)
	if err := (booking{}).Ready(ctx, tr); err == nil || !strings.Contains(err.Error(), tr.address) {
		t.Errorf("nobody there: %v", err)
	}
}

// The same seed has one connection ask for the same things, another seed for others.
func TestBookingVisitsAreTheirSeeds(t *testing.T) {
	var asked []map[string]int
	for _, seed := range []uint64{1, 1, 2} {
		f, tr := serveBooking(t, "")
		tr.params["connections"] = "1"
		if _, err := (booking{}).Load(t.Context(), tr, seed); err != nil {
			t.Fatal(err)
		}
		users := map[string]int{}
		for user, bookings := range f.bookings {
			users[user] = len(bookings)
		}
		asked = append(asked, users)
	}
	if !maps.Equal(asked[0], asked[1]) || maps.Equal(asked[0], asked[2]) {
		t.Errorf("users' bookings by seed 1, 1, 2: %v", asked)
	}
}

// A user whose request failed comes again only where there is no other, and then nothing
// is held to what was known of him.
func TestBookingUsersOfWhomNothingIsSure(t *testing.T) {
	users := newBookingUsers(3, 1)
	failed := users.take()
	if err := failed.listed(map[string]string{"a": "TA1-0"}, nil); err != nil {
		t.Fatal(err)
	}
	failed.leave(false)
	one, other := users.take(), users.take()
	if one == failed || other == failed || one == other {
		t.Fatalf("%s, %s after %s failed", one.name, other.name, failed.name)
	}
	if again := users.take(); again != failed {
		t.Fatalf("%s comes, want %s", again.name, failed.name)
	}
	if err := failed.listed(map[string]string{"b": "TA1-0"}, map[string]string{"b": "TA1-0"}); err != nil {
		t.Error(err)
	}
	if err := failed.listed(map[string]string{}, map[string]string{"b": "TA1-0"}); err == nil {
		t.Error("what he has just booked may be missing")
	}
}

// rememberingTrial is a trial whose service goes on from one load to the next.
type rememberingTrial struct {
	*trial
	users any
}

func (r *rememberingTrial) Remembered(make func() any) any {
	if r.users == nil {
		r.users = make()
	}
	return r.users
}

// What is known of users outlives a load, and the visits that its end cuts off.
func TestBookingUsersOutliveALoad(t *testing.T) {
	f, plain := serveBooking(t, "")
	plain.params["users"], plain.params["count"] = "8", "90"
	tr := &rememberingTrial{trial: plain}
	var known map[string]string
	for seed := range uint64(3) {
		r, err := booking{}.Load(t.Context(), tr, seed)
		if err := answered(r, err); err != nil {
			t.Fatal(err)
		}
		users := tr.users.(*bookingUsers)
		if len(users.away) != len(users.all) {
			t.Fatalf("%d of %d users are back after load %d", len(users.away), len(users.all), seed)
		}
		for _, user := range users.all {
			if user.unsure {
				t.Errorf("after load %d %s is unsure, and all was answered rightly", seed, user.name)
			}
			if user.bookings != nil && !maps.Equal(user.bookings, f.bookings[user.name]) {
				t.Errorf("after load %d %s is known to have %v, and has %v", seed, user.name, user.bookings, f.bookings[user.name])
			}
			if len(user.bookings) > len(known) {
				known = f.bookings[user.name]
			}
		}
	}
	// What vanishes between two loads is missed in the next, in which each user comes.
	if len(known) == 0 {
		t.Fatal("nobody is known to have booked anything")
	}
	clear(known)
	plain.params["count"] = "800"
	if r, err := (booking{}).Load(t.Context(), tr, 9); err == nil && r.Errors["body"] == 0 {
		t.Error("the bookings of a user are gone since the last load, and nobody has missed them")
	}
}

// A booking that was not sure in one load may appear in the next.
func TestBookingUnsureUsersStaySo(t *testing.T) {
	_, plain := serveBooking(t, "")
	tr := &rememberingTrial{trial: plain}
	plan, err := planOf[bookingPlan](plain.params)
	if err != nil {
		t.Fatal(err)
	}
	plan.target(tr, 1).users.take().leave(false)
	unsure := 0
	for _, user := range plan.target(tr, 2).users.all {
		if user.unsure {
			unsure++
		}
	}
	if unsure != 1 {
		t.Errorf("%d users are unsure in the next load, want the one of whom it was known", unsure)
	}
}

// A booking that stays though it was cancelled is seen in that visit already.
func TestBookingCancelledIsLookedFor(t *testing.T) {
	_, tr := serveBooking(t, "cancelled")
	plan, err := planOf[bookingPlan](tr.params)
	if err != nil {
		t.Fatal(err)
	}
	target := plan.target(tr, 1)
	target.users = newBookingUsers(200, 1)
	r, err := load.Run(t.Context(), target, load.Options{Connections: 1, Count: 110})
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors["body"] == 0 || !strings.Contains(r.FirstError.Error(), "(any more), and it is listed") {
		t.Errorf("in ten visits of users of whom none comes again: %v, %v", r.Errors, r.FirstError)
	}
}

func TestBookingFlown(t *testing.T) {
	total := 0
	for from := range bookingAirports {
		for to := range bookingAirports {
			for day := range bookingDays {
				if from != to {
					total += len(bookingFlown(from, to, day))
				}
			}
		}
	}
	if total != bookingFlights || len(bookingCodes) != bookingAirports {
		t.Errorf("%d flights between %d airports, want %d", total, len(bookingCodes), bookingFlights)
	}
	if got := bookingFlown(0, 1, 0); !slices.Equal(got, []string{"TA0-0"}) {
		t.Errorf("from the first to the second on the first day fly %q", got)
	}
}

// Whatever a site answers, it is read without harm.
func FuzzBookingAnswers(f *testing.F) {
	f.Add([]byte(`{"user":"u","session":"s","loggedOut":true}`))
	f.Add([]byte(`{"tripFlights":[{"flightsOptions":[{"_id":"TA0-0","scheduledDepartureTime":"2018-08-27T00:00:00.000Z","flightSegment":{"originPort":"AMS","destPort":"BOG"}}]},{"flightsOptions":[]}]}`))
	f.Add([]byte(`{"departBookingId":"a","returnBookingId":"b"}`))
	f.Add([]byte(`[{"_id":"a","customerId":"u","flightId":"TA0-0"}]`))
	f.Add([]byte(`{"_id":"u","status":"GOLD","phoneNumber":"1","address":{"city":"Cairo"}}`))
	f.Add([]byte(`{"status":"success","number":"a"}`))
	f.Add([]byte(`{"customer":1,"flight":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if session, err := parseBookingLogin(body, "u"); err == nil && session == "" {
			t.Error("a login without a session passes")
		}
		trip := bookingTrip{from: 0, to: 1, departs: 0, back: 7}
		if offer, err := parseBookingOffer(body, trip); err == nil && offer.there != "TA0-0" {
			t.Errorf("%+v passes", offer)
		}
		if booked, err := parseBooked(body, bookingOffer{"TA0-0", "TA1-7"}); err == nil && (len(booked) != 2 || booked[""] != "") {
			t.Errorf("%v passes", booked)
		}
		if list, err := parseBookingList(body, "u"); err == nil && list[""] != "" {
			t.Errorf("%v passes", list)
		}
		if p, err := parseBookingProfile(body, "u"); err == nil && p.ID != "u" {
			t.Errorf("%+v passes", p)
		}
		_ = checkBookingLogout(body, "u")
		_ = checkBookingCancelled(body, "a")
		_, _ = parseBookingCounts(body)
	})
}

// A service that hangs up between two requests takes its users along, and the load goes on.
func TestBookingGoesOnWithoutUsers(t *testing.T) {
	users := newBookingUsers(1, 1)
	one, same := users.take(), users.take()
	if one != same || !one.unsure {
		t.Errorf("%+v, %+v", one, same)
	}
	one.leave(true)
	same.leave(true)
	if len(users.away) != 1 {
		t.Errorf("%d users are away, of one", len(users.away))
	}
	if err := one.listed(map[string]string{"a": "TA0-0"}, nil); err != nil {
		t.Errorf("one of whom nothing is known has bookings: %v", err)
	}
}
