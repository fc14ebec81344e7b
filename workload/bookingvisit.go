package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"tare/load"
)

// A visit is AcmeAir's: login; in one of four, the profile is read and changed; five
// queries; a booking of the last offer that they found, there and back where it has a way
// back; a list of all bookings; in one of four, all but two of them are cancelled, and what
// is left is listed, which is ours: else a booking that stays though it was cancelled were
// seen only where its user comes again; logout.
const (
	bookingQueries      = 5
	bookingKept         = 2
	bookingSometimes    = 4 // one visit of so many
	bookingLatestDepart = 5 // days
	bookingSoonestBack  = 6
	bookingLatestBack   = 12
)

const (
	bookingPath   = "/rest/api/"
	bookingCookie = "sessionid"
)

// bookingAPI is how a site is asked.
func bookingAPI(t Trial, port int) load.HTTP {
	return load.HTTP{
		Address: t.Address(port), Status: http.StatusOK, Dial: dialOf(t),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// bookingTarget is a site whose connections each walk users through it, one after the
// other, by one request at a time.
type bookingTarget struct {
	api    load.HTTP
	users  *bookingUsers
	seed   uint64
	opened *bookingOpened
}

// bookingOpened are the connections of one load.
type bookingOpened struct {
	mu  sync.Mutex
	all []*bookingVisits
}

func (plan bookingPlan) target(t Trial, seed uint64) bookingTarget {
	return bookingTarget{
		api:    bookingAPI(t, plan.port),
		users:  usersOf(t, plan.users, seed),
		seed:   seed,
		opened: new(bookingOpened),
	}
}

func (b bookingTarget) Open(ctx context.Context) (load.Conn, error) {
	v := &bookingVisits{users: b.users}
	v.next = v.login
	b.opened.mu.Lock()
	b.opened.all = append(b.opened.all, v)
	v.random = rand.New(rand.NewPCG(b.seed, uint64(len(b.opened.all))))
	b.opened.mu.Unlock()
	api := b.api
	api.Next = v.request
	return api.Open(ctx)
}

// settle ends the visits that a load has left under way, once it is over: none of their
// requests is, and so what is known of their users is still.
func (b bookingTarget) settle() {
	b.opened.mu.Lock()
	defer b.opened.mu.Unlock()
	for _, v := range b.opened.all {
		if v.user != nil {
			v.user.breakOff(v.made)
			v.user = nil
		}
	}
}

// bookingVisits are those on one connection.
type bookingVisits struct {
	users  *bookingUsers
	random *rand.Rand
	// next makes the next request. Its check, where it finds the answer right, says what
	// follows that.
	next func() load.HTTPRequest

	// Of the visit under way.
	user    *bookingUser
	session string
	offer   bookingOffer      // the last that was found
	made    map[string]string // bookings that were not listed yet, the flight of each
}

// request is the next one. One that is not answered rightly ends the visit, and the next
// begins with another user.
func (v *bookingVisits) request() load.HTTPRequest {
	request := v.next()
	if v.session != "" {
		request.Cookie = bookingCookie + "=" + v.session
	}
	request.Done = func(err error) {
		if err != nil {
			v.leave(false)
		}
	}
	return request
}

// leave ends the visit.
func (v *bookingVisits) leave(inOrder bool) {
	if v.user != nil {
		v.user.leave(inOrder)
	}
	v.user, v.session, v.offer, v.made = nil, "", bookingOffer{}, nil
	v.next = v.login
}

// sometimes is true in one of four.
func (v *bookingVisits) sometimes() bool { return v.random.IntN(bookingSometimes) == 0 }

func (v *bookingVisits) login() load.HTTPRequest {
	v.user = v.users.take()
	return v.post("login", map[string]any{"login": v.user.name, "password": "password"}, func(body []byte) (err error) {
		if v.session, err = parseBookingLogin(body, v.user.name); err != nil {
			return err
		}
		if v.next = v.query(bookingQueries); v.sometimes() {
			v.next = v.readProfile
		}
		return nil
	})
}

func (v *bookingVisits) readProfile() load.HTTPRequest {
	return v.get("customer/byid/"+v.user.name, func(body []byte) error {
		profile, err := parseBookingProfile(body, v.user.name)
		if err != nil {
			return err
		}
		v.next = v.changeProfile(profile)
		return v.user.shown(profile)
	})
}

func (v *bookingVisits) changeProfile(to bookingProfile) func() load.HTTPRequest {
	to.Phone = fmt.Sprintf("919-%03d-%04d", v.random.IntN(1000), v.random.IntN(10_000))
	to.Address.Street = strconv.Itoa(1+v.random.IntN(999)) + " Main St."
	return func() load.HTTPRequest {
		change := map[string]any{"phoneNumber": to.Phone, "address": to.Address}
		return v.post("customer/byid/"+v.user.name, change, func(body []byte) error {
			profile, err := parseBookingProfile(body, v.user.name)
			if err != nil {
				return err
			}
			v.next = v.query(bookingQueries)
			return v.user.updated(profile, to)
		})
	}
}

// query asks for flights, with so many queries left, this one among them.
func (v *bookingVisits) query(left int) func() load.HTTPRequest {
	trip := bookingTrip{
		from: v.random.IntN(bookingAirports), departs: v.random.IntN(bookingLatestDepart + 1),
		back: bookingSoonestBack + v.random.IntN(bookingLatestBack-bookingSoonestBack+1),
	}
	trip.to = (trip.from + 1 + v.random.IntN(bookingAirports-1)) % bookingAirports
	return func() load.HTTPRequest {
		return v.post("flights/queryflights", map[string]any{
			"fromAirport": bookingCodes[trip.from], "toAirport": bookingCodes[trip.to], "oneWay": "false",
			"fromDate": bookingDay(trip.departs).Format(time.DateOnly), "returnDate": bookingDay(trip.back).Format(time.DateOnly),
		}, func(body []byte) error {
			offer, err := parseBookingOffer(body, trip)
			if err != nil {
				return err
			}
			if offer.there != "" {
				v.offer = offer
			}
			switch {
			case left > 1:
				v.next = v.query(left - 1)
			case v.offer.there != "":
				v.next = v.book
			default:
				v.next = v.list
			}
			return nil
		})
	}
}

func (v *bookingVisits) book() load.HTTPRequest {
	order := map[string]any{"userid": v.user.name, "toFlightId": v.offer.there, "oneWayFlight": strconv.FormatBool(v.offer.back == "")}
	if v.offer.back != "" {
		order["retFlightId"] = v.offer.back
	}
	return v.post("bookings/bookflights", order, func(body []byte) (err error) {
		v.made, err = parseBooked(body, v.offer)
		v.next = v.list
		return err
	})
}

func (v *bookingVisits) list() load.HTTPRequest {
	return v.get("bookings/byuser/"+v.user.name, func(body []byte) error {
		list, err := parseBookingList(body, v.user.name)
		if err != nil {
			return err
		}
		v.next = v.logout
		if ids := slices.Sorted(maps.Keys(list)); len(ids) > bookingKept && v.sometimes() {
			v.next = v.cancel(ids[bookingKept:])
		}
		return v.see(list)
	})
}

// listAgain is what follows cancelling.
func (v *bookingVisits) listAgain() load.HTTPRequest {
	return v.get("bookings/byuser/"+v.user.name, func(body []byte) error {
		list, err := parseBookingList(body, v.user.name)
		if err != nil {
			return err
		}
		v.next = v.logout
		return v.see(list)
	})
}

// see holds a list to what is known of the user.
func (v *bookingVisits) see(list map[string]string) error {
	err := v.user.listed(list, v.made)
	v.made = nil
	return err
}

// cancel cancels one booking after the other.
func (v *bookingVisits) cancel(ids []string) func() load.HTTPRequest {
	return func() load.HTTPRequest {
		id := ids[0]
		return v.post("bookings/cancelbooking", map[string]any{"userid": v.user.name, "number": id}, func(body []byte) error {
			if err := checkBookingCancelled(body, id); err != nil {
				return err
			}
			v.user.cancelled(id)
			if v.next = v.listAgain; len(ids) > 1 {
				v.next = v.cancel(ids[1:])
			}
			return nil
		})
	}
}

func (v *bookingVisits) logout() load.HTTPRequest {
	return v.get("login/logout", func(body []byte) error {
		if err := checkBookingLogout(body, v.user.name); err != nil {
			return err
		}
		v.leave(true)
		return nil
	})
}

func (v *bookingVisits) get(path string, check func(body []byte) error) load.HTTPRequest {
	return load.HTTPRequest{Path: bookingPath + path, Check: check}
}

func (v *bookingVisits) post(path string, what map[string]any, check func(body []byte) error) load.HTTPRequest {
	body, err := json.Marshal(what)
	if err != nil {
		panic(err) // texts, which have a JSON form
	}
	return load.HTTPRequest{Method: http.MethodPost, Path: bookingPath + path, Body: body, Check: check}
}
