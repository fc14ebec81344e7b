package place

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tare/platform"
)

// Asked is what a program requires in every place.
type Asked struct {
	Base platform.Setting // besides storage and network
	// Serves is set where the program has ports that its load on the host must reach.
	Serves bool
	// AnyCPU has a platform that cannot keep a program to the base's CPUs run it on all
	// of them, instead of leaving the platform out.
	AnyCPU bool
}

// Usable leaves out the places that this host cannot give, and says why, once for
// each reason that a platform has. Bare metal is first, or a note says that there is
// none.
func (h Host) Usable(wanted []Place, asked Asked) (places []Place, notes []string) {
	platforms := map[string]*candidate{}
	var order []*candidate
	for _, p := range wanted {
		c := platforms[p.Platform]
		if c == nil {
			c = h.candidate(p.Platform)
			platforms[p.Platform], order = c, append(order, c)
		}
		if given, ok := c.give(p, asked); ok {
			places = append(places, given)
		}
	}
	for _, c := range order {
		notes = append(notes, c.notes(asked)...)
	}
	return places, notes
}

// candidate is a platform that is asked for places.
type candidate struct {
	name    string
	on      platform.Platform
	lacks   error // what keeps it from being used at all
	given   int
	refused []refusal
	anyCPU  error // why it keeps no program to CPUs
}

// refusal is a reason, and the places that it was given for.
type refusal struct {
	why    string
	labels []string
}

// candidate looks for a platform, and checks it.
func (h Host) candidate(name string) *candidate {
	c := &candidate{name: name}
	if c.on, c.lacks = h.Platform(name); c.lacks == nil {
		c.lacks = h.Check(c.on)
	}
	return c
}

// give gives a place as the platform can, or enters why it cannot.
func (c *candidate) give(p Place, asked Asked) (Place, bool) {
	err := c.lacks
	if err == nil {
		err = c.supports(p, asked)
		refused := (*platform.Unsupported)(nil)
		if asked.AnyCPU && p.Platform != Bare && errors.As(err, &refused) && refused.Key == "cpuset-cpus" {
			p.AnyCPU = true
			c.anyCPU, err = err, c.supports(p, asked)
		}
	}
	if err == nil {
		c.given++
		return p, true
	}
	at := slices.IndexFunc(c.refused, func(r refusal) bool { return r.why == err.Error() })
	if at < 0 {
		at = len(c.refused)
		c.refused = append(c.refused, refusal{why: err.Error()})
	}
	c.refused[at].labels = append(c.refused[at].labels, p.Label())
	return p, false
}

func (c *candidate) supports(p Place, asked Asked) error {
	setting := p.Setting(asked.Base)
	if err := c.on.Supports(setting); err != nil {
		return err
	}
	if on, ok := c.on.(platform.Reaching); ok && asked.Serves {
		return on.Reaches(setting)
	}
	return nil
}

func (c *candidate) notes(asked Asked) (notes []string) {
	if c.anyCPU != nil && c.given > 0 {
		notes = append(notes, fmt.Sprintf("%s cannot pin the program to CPU %s (%v): "+
			"it runs on all CPUs there, those of its load included, which changes its figures",
			c.name, asked.Base.CPUSet, c.anyCPU))
	}
	for _, r := range c.refused {
		switch whole := c.given == 0 && len(c.refused) == 1; {
		case whole:
			notes = append(notes, c.name+" is left out: "+r.why)
		case len(r.labels) == 1:
			notes = append(notes, r.labels[0]+" is left out: "+r.why)
		default:
			notes = append(notes, strings.Join(r.labels, ", ")+" are left out: "+r.why)
		}
	}
	return notes
}
