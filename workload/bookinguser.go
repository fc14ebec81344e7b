package workload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// bookingUsers are the site's users who are not there just now: a user is on one
// connection at a time. They keep what is known of them from one visit to the next.
type bookingUsers struct {
	mu     sync.Mutex
	random *rand.Rand
	all    []*bookingUser
	away   []*bookingUser
}

// bookingUser is one of them. What is known of him is nil until he received it once.
type bookingUser struct {
	of       *bookingUsers
	name     string
	bookings map[string]string // the flight of each
	profile  *bookingProfile
	// unsure is set where a request of his was not answered rightly: it may be carried
	// out still, at any later time, so that nothing but what he has just done can be held
	// to what he receives.
	unsure bool
}

func newBookingUsers(count int64, seed uint64) *bookingUsers {
	users := &bookingUsers{random: rand.New(rand.NewPCG(seed, 0))}
	for n := range count {
		users.all = append(users.all, &bookingUser{of: users, name: fmt.Sprintf("uid%d@example.org", n)})
	}
	users.away = slices.Clone(users.all)
	return users
}

// usersOf are those of a running site, who keep what is known of them through all its
// loads where its trial remembers them; each load draws whom it has come by its own seed.
func usersOf(t Trial, count int64, seed uint64) *bookingUsers {
	r, ok := t.(Remembering)
	if !ok {
		return newBookingUsers(count, seed)
	}
	users := r.Remembered(func() any { return newBookingUsers(count, seed) }).(*bookingUsers)
	users.mu.Lock()
	defer users.mu.Unlock()
	users.random = rand.New(rand.NewPCG(seed, 0))
	return users
}

// take draws a user; one of whom all is known where there is one.
func (u *bookingUsers) take() *bookingUser {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.away) == 0 {
		// There are as many as connections. A service that closes connections between
		// two requests has taken some along, who were there: nobody knows which.
		user := u.all[u.random.IntN(len(u.all))]
		user.unsure = true
		return user
	}
	at := u.random.IntN(len(u.away))
	for range u.away {
		if !u.away[at].unsure {
			break
		}
		at = (at + 1) % len(u.away)
	}
	user := u.away[at]
	u.away = slices.Delete(u.away, at, at+1)
	return user
}

// leave gives a user back. In order tells that every request of his was answered rightly.
func (u *bookingUser) leave(inOrder bool) {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if !inOrder {
		u.unsure, u.bookings, u.profile = true, nil, nil
	}
	if !slices.Contains(u.of.away, u) {
		u.of.away = append(u.of.away, u)
	}
}

// breakOff gives a user back in the midst of a visit, all of whose requests were answered
// rightly; made are the bookings of it that he has not seen listed.
func (u *bookingUser) breakOff(made map[string]string) {
	u.of.mu.Lock()
	if u.bookings != nil {
		maps.Copy(u.bookings, made)
	}
	u.of.mu.Unlock()
	u.leave(true)
}

// listed holds a list of his bookings to those that he has just made, and to those that
// he knows of: none is missing, and one that was cancelled is gone.
func (u *bookingUser) listed(list, made map[string]string) error {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	for id, flight := range made {
		if list[id] != flight {
			return fmt.Errorf("%s has booked %s as %s, and it is not listed", u.name, flight, id)
		}
	}
	if u.unsure {
		return nil
	}
	if u.bookings != nil {
		want := maps.Clone(u.bookings)
		maps.Copy(want, made)
		for id, flight := range want {
			if list[id] != flight {
				return fmt.Errorf("%s has booking %s of %s, and it is not listed", u.name, id, flight)
			}
		}
		for id := range list {
			if _, ok := want[id]; !ok {
				return fmt.Errorf("%s has no booking %s (any more), and it is listed", u.name, id)
			}
		}
	}
	u.bookings = list
	return nil
}

// cancelled forgets a booking.
func (u *bookingUser) cancelled(id string) {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	delete(u.bookings, id)
}

// shown holds a profile to what he left there.
func (u *bookingUser) shown(p bookingProfile) error {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if u.profile != nil && *u.profile != p {
		return fmt.Errorf("the profile of %s was %+v, and is %+v", u.name, *u.profile, p)
	}
	if !u.unsure {
		u.profile = &p
	}
	return nil
}

// updated holds the answer to a change of his profile to what he changed it to.
func (u *bookingUser) updated(p, want bookingProfile) error {
	if p != want {
		return fmt.Errorf("%s has changed his profile to %+v, and it is %+v", u.name, want, p)
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if !u.unsure {
		u.profile = &p
	}
	return nil
}
