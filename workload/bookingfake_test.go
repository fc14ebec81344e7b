package workload

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeBooking is the booking site's application, in so far as its clients see it. It
// can be made to do one thing wrong.
type fakeBooking struct {
	wrong string

	mu       sync.Mutex
	counts   bookingCounts
	sessions map[string]string // to users
	profiles map[string]bookingProfile
	bookings map[string]map[string]string // by users, the flight of each
	made     int
	asked    map[string]int // how often, by path without a user
}

func serveBooking(t *testing.T, wrong string) (*fakeBooking, *trial) {
	t.Helper()
	f := &fakeBooking{
		wrong: wrong, sessions: map[string]string{}, profiles: map[string]bookingProfile{},
		bookings: map[string]map[string]string{}, asked: map[string]int{},
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, &trial{params: resolve(t, booking{}, "rate", closed, "warmup", "0s", "count", "400"),
		address: strings.TrimPrefix(server.URL, "http://"), ended: make(chan struct{})}
}

func (f *fakeBooking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, bookingPath)
	of := ""
	for _, about := range []string{"bookings/byuser/", "customer/byid/"} {
		if name, ok := strings.CutPrefix(path, about); ok {
			path, of = about, name
		}
	}
	f.asked[path]++
	var body struct {
		Login, UserID, Number                        string
		FromAirport, ToAirport, FromDate, ReturnDate string
		ToFlightID, RetFlightID, OneWayFlight        string
		PhoneNumber                                  string
		Address                                      bookingAddress
	}
	if r.Method == http.MethodPost && !strings.HasPrefix(path, "config") {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	answer := func(v any) { json.NewEncoder(w).Encode(v) }
	switch path {
	case "config":
		answer(f.counts)
		return
	case "config/load":
		f.counts = bookingCounts{Airports: bookingAirports, Segments: bookingSegments, Flights: bookingFlights}
		fmt.Sscan(r.URL.Query().Get("customers"), &f.counts.Customers)
		if f.wrong == "data" {
			f.counts.Flights--
		}
		answer(f.counts)
		return
	case "login":
		f.made++
		session := fmt.Sprint("session-", f.made)
		f.sessions[session] = body.Login
		if _, ok := f.profiles[body.Login]; !ok {
			f.profiles[body.Login] = bookingProfile{ID: body.Login, Status: "GOLD", Phone: "919-100-1000", Address: bookingAddress{City: "Cairo"}}
			f.bookings[body.Login] = map[string]string{"before-1": "TA0-0", "before-2": "TA0-0", "before-3": "TA0-0"}
		}
		switch f.wrong {
		case "session":
			session = ""
		case "user":
			body.Login = "uid0"
		}
		answer(map[string]string{"user": body.Login, "session": session})
		return
	}
	cookie, err := r.Cookie(bookingCookie)
	if err != nil || f.sessions[cookie.Value] == "" {
		http.Error(w, "no session", http.StatusForbidden)
		return
	}
	user := f.sessions[cookie.Value]
	if of != "" && of != user || body.UserID != "" && body.UserID != user {
		http.Error(w, "another's", http.StatusForbidden)
		return
	}
	switch path {
	case "login/logout":
		delete(f.sessions, cookie.Value)
		answer(map[string]any{"user": user, "loggedOut": f.wrong != "logout"})
	case "flights/queryflights":
		answer(f.offer(body.FromAirport, body.ToAirport, body.FromDate, body.ReturnDate))
	case "bookings/bookflights":
		booked := map[string]string{"departBookingId": f.book(user, body.ToFlightID)}
		if body.OneWayFlight == "false" && f.wrong != "one way" {
			booked["returnBookingId"] = f.book(user, body.RetFlightID)
		}
		answer(booked)
	case "bookings/cancelbooking":
		if _, ok := f.bookings[user][body.Number]; !ok {
			http.Error(w, "no such booking", http.StatusNotFound)
			return
		}
		if f.wrong != "cancelled" {
			delete(f.bookings[user], body.Number)
		}
		status := "success"
		if f.wrong == "cancel" {
			status = "failure"
		}
		answer(map[string]string{"status": status, "number": body.Number})
	case "bookings/byuser/":
		list := []map[string]string{}
		for id, flight := range f.bookings[user] {
			if f.wrong == "other's" {
				user = "uid9999"
			}
			list = append(list, map[string]string{"_id": id, "customerId": user, "flightId": flight})
		}
		answer(list)
	case "customer/byid/":
		if r.Method == http.MethodPost && f.wrong != "unchanged" {
			p := f.profiles[user]
			p.Phone, p.Address = body.PhoneNumber, body.Address
			if f.wrong != "forgotten" {
				f.profiles[user] = p
			}
			answer(p)
			return
		}
		answer(f.profiles[user])
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeBooking) book(user, flight string) string {
	f.made++
	id := fmt.Sprint("booking-", f.made)
	if f.wrong != "unbooked" {
		f.bookings[user][id] = flight
	}
	return id
}

// offer answers a query.
func (f *fakeBooking) offer(from, to, there, back string) map[string]any {
	index := func(code string) int {
		for i, each := range bookingCodes {
			if each == code {
				return i
			}
		}
		return 0
	}
	leg := func(from, to, on string) map[string]any {
		flights := []map[string]any{}
		for day := range bookingDays {
			if bookingDay(day).Format("2006-01-02") != on {
				continue
			}
			for _, id := range bookingFlown(index(from), index(to), day) {
				if f.wrong == "day" {
					day++
				}
				flights = append(flights, map[string]any{
					"_id": id, "scheduledDepartureTime": bookingDay(day), "flightSegment": map[string]string{"originPort": from, "destPort": to},
				})
			}
		}
		if f.wrong == "absent" {
			flights = nil
		}
		return map[string]any{"flightsOptions": flights}
	}
	if f.wrong == "airports" {
		from, to = to, from
	}
	legs := []any{leg(from, to, there), leg(to, from, back)}
	if f.wrong == "legs" {
		legs = legs[:1]
	}
	return map[string]any{"tripFlights": legs}
}
