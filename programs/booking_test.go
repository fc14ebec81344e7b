package programs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tare/programs"
)

func TestBookingFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("booking/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"JAVACFLAGS ?= " + strings.Join(programs.BookingJavaFlags, " ") + "\n", ": " + programs.BookingJava + "\n"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
	if _, err := programs.Booking.ReadFile("booking/" + programs.BookingJava); err != nil {
		t.Error(err)
	}
}

// The data have the numbers that AcmeAir's have, and are the same for a seed.
func TestBookingData(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, to run the site's JavaScript")
	}
	const script = `
const data = require('./booking/data.js');
const all = (seed) => ({
  airports: data.airports(), segments: data.segments(), flights: data.flights(seed),
  customers: [...data.customers(20, seed)], bookings: [...data.bookings(5, 3, seed)],
});
const [one, same, other] = [all(1), all(1), all(2)].map((each) => JSON.stringify(each));
const { airports, segments, flights, customers, bookings } = all(1);
const known = new Set(flights.map((flight) => flight._id));
console.log(JSON.stringify({
  counts: [airports, segments, flights, customers, bookings].map((each) => each.length),
  same: one === same, other: one !== other,
  slots: new Set(flights.map((flight) => flight.flightSegmentId + flight.scheduledDepartureTime)).size,
  ids: known.size, booked: bookings.every((booking) => known.has(booking.flightId)),
  each: customers.slice(0, 5).map((customer) => bookings.filter((booking) => booking.customerId === customer._id).length),
  sizes: [customers[0], { ...flights[0], flightSegment: segments[0] }, bookings[0]].map((each) => JSON.stringify(each).length),
}));`
	out, err := exec.CommandContext(t.Context(), node, "-e", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		`"counts":[14,394,1970,20,15]`, `"same":true,"other":true`, `"slots":1970,"ids":1970,"booked":true`, `"each":[3,3,3,3,3]`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	t.Logf("%s", out)
}
