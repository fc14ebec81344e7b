package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The booking site's answers, in so far as users look at them.

// bookingCounts is how many documents of each kind the site has.
type bookingCounts struct {
	Airports  int64 `json:"airportCodeMapping"`
	Segments  int64 `json:"flightSegment"`
	Flights   int64 `json:"flight"`
	Customers int64 `json:"customer"`
	Bookings  int64 `json:"booking"`
}

func parseBookingCounts(body []byte) (c bookingCounts, err error) { return c, parseAnswer(body, &c) }

// parseAnswer reads JSON.
func parseAnswer(body []byte, to any) error {
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%w, in %.80q", err, body)
	}
	return nil
}

// parseBookingLogin gives the session of a user who logged in.
func parseBookingLogin(body []byte, user string) (session string, err error) {
	var answer struct{ User, Session string }
	if err := parseAnswer(body, &answer); err != nil {
		return "", err
	}
	switch {
	case answer.User != user:
		return "", fmt.Errorf("%s logged in, and is %q", user, answer.User)
	case answer.Session == "":
		return "", fmt.Errorf("%s logged in, and has no session", user)
	}
	return answer.Session, nil
}

func checkBookingLogout(body []byte, user string) error {
	var answer struct {
		User      string
		LoggedOut bool
	}
	if err := parseAnswer(body, &answer); err != nil {
		return err
	}
	if answer.User != user || !answer.LoggedOut {
		return fmt.Errorf("%s logged out, and the answer is %.80q", user, body)
	}
	return nil
}

// bookingProfile is what the site tells a customer of himself.
type bookingProfile struct {
	ID      string         `json:"_id"`
	Status  string         `json:"status"`
	Phone   string         `json:"phoneNumber"`
	Address bookingAddress `json:"address"`
}

type bookingAddress struct {
	Street  string `json:"streetAddress1"`
	City    string `json:"city"`
	State   string `json:"stateProvince"`
	Country string `json:"country"`
	Code    string `json:"postalCode"`
}

// parseBookingProfile reads the profile of a user.
func parseBookingProfile(body []byte, user string) (p bookingProfile, err error) {
	if err := parseAnswer(body, &p); err != nil {
		return p, err
	}
	if p.ID != user || p.Status == "" || p.Phone == "" || p.Address == (bookingAddress{}) {
		return p, fmt.Errorf("the profile of %s is %+v", user, p)
	}
	return p, nil
}

// bookingTrip is what a query asks for: from one airport to another and back, each on a
// day since the first on which anything is flown.
type bookingTrip struct {
	from, to      int // of bookingCodes
	departs, back int
}

// bookingOffer is what a query found: flights by their names, none where there is none.
type bookingOffer struct{ there, back string }

// parseBookingOffer holds what was found to all that is flown between the airports on
// the days, and gives the first of each.
func parseBookingOffer(body []byte, trip bookingTrip) (offer bookingOffer, err error) {
	var answer struct {
		Legs []struct {
			Flights []struct {
				ID      string    `json:"_id"`
				Departs time.Time `json:"scheduledDepartureTime"`
				Segment struct {
					From string `json:"originPort"`
					To   string `json:"destPort"`
				} `json:"flightSegment"`
			} `json:"flightsOptions"`
		} `json:"tripFlights"`
	}
	if err := parseAnswer(body, &answer); err != nil {
		return offer, err
	}
	legs := []struct {
		from, to, day int
		found         *string
	}{{trip.from, trip.to, trip.departs, &offer.there}, {trip.to, trip.from, trip.back, &offer.back}}
	if len(answer.Legs) != len(legs) {
		return offer, fmt.Errorf("a trip of %d legs was asked for, and %d are answered", len(legs), len(answer.Legs))
	}
	for i, leg := range legs {
		from, to, day := bookingCodes[leg.from], bookingCodes[leg.to], bookingDay(leg.day)
		var found []string
		for _, flight := range answer.Legs[i].Flights {
			if flight.Segment.From != from || flight.Segment.To != to || !flight.Departs.Equal(day) {
				return offer, fmt.Errorf(
					"from %s to %s on %s was asked for, and %s is from %s to %s on %s",
					from,
					to,
					day.Format(time.DateOnly),
					flight.ID,
					flight.Segment.From,
					flight.Segment.To,
					flight.Departs.Format(time.DateOnly),
				)
			}
			found = append(found, flight.ID)
		}
		slices.Sort(found)
		want := bookingFlown(leg.from, leg.to, leg.day)
		if !slices.Equal(found, want) {
			return offer, fmt.Errorf("from %s to %s on %s flies %q, and %q is answered", from, to, day.Format(time.DateOnly), want, found)
		}
		if len(found) > 0 {
			*leg.found = found[0]
		}
	}
	return offer, nil
}

// What is flown, as the site's data.js has it.
var (
	bookingCodes    = []string{"AMS", "BOG", "CAI", "CPT", "DEL", "GRU", "HND", "JFK", "LHR", "NBO", "SFO", "SIN", "SYD", "YYZ"}
	bookingFirstDay = time.Date(2018, time.August, 27, 0, 0, 0, 0, time.UTC)
	bookingFlownOn  = []int{0, 3, 5, 8, 10}
)

const (
	bookingDays  = 13
	bookingPairs = bookingAirports * (bookingAirports - 1)
)

func bookingDay(day int) time.Time { return bookingFirstDay.AddDate(0, 0, day) }

// bookingFlown lists the flights from one airport to another on a day, sorted.
func bookingFlown(from, to, day int) []string {
	pair := from*(bookingAirports-1) + to
	if to > from {
		pair--
	}
	var flights []string
	for segment := pair; segment < bookingSegments; segment += bookingPairs {
		if slices.Contains(bookingFlownOn, (day+segment+segment/bookingPairs)%bookingDays) {
			flights = append(flights, "TA"+strconv.Itoa(segment)+"-"+strconv.Itoa(day))
		}
	}
	slices.Sort(flights)
	return flights
}

// parseBooked gives the bookings that were made for an offer: the flight of each.
func parseBooked(body []byte, offer bookingOffer) (map[string]string, error) {
	var answer struct {
		Depart string `json:"departBookingId"`
		Return string `json:"returnBookingId"`
	}
	if err := parseAnswer(body, &answer); err != nil {
		return nil, err
	}
	booked := map[string]string{answer.Depart: offer.there}
	if offer.back != "" {
		booked[answer.Return] = offer.back
	}
	if answer.Depart == "" || (answer.Return == "") != (offer.back == "") || answer.Depart == answer.Return {
		return nil, fmt.Errorf("of %+v the bookings are %q and %q", offer, answer.Depart, answer.Return)
	}
	return booked, nil
}

// parseBookingList gives a user's bookings: the flight of each.
func parseBookingList(body []byte, user string) (map[string]string, error) {
	var answer []struct {
		ID       string `json:"_id"`
		Customer string `json:"customerId"`
		Flight   string `json:"flightId"`
	}
	if err := parseAnswer(body, &answer); err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, errors.New("no list of bookings is answered")
	}
	list := map[string]string{}
	for _, b := range answer {
		if _, twice := list[b.ID]; twice || b.ID == "" || b.Flight == "" || b.Customer != user {
			return nil, fmt.Errorf("the bookings of %s have %+v among them", user, b)
		}
		list[b.ID] = b.Flight
	}
	return list, nil
}

func checkBookingCancelled(body []byte, id string) error {
	var answer struct{ Status, Number string }
	if err := parseAnswer(body, &answer); err != nil {
		return err
	}
	if answer.Status != "success" || answer.Number != id {
		return fmt.Errorf("booking %s was cancelled, and the answer is %.80q", id, body)
	}
	return nil
}
