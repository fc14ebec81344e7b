package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/report"
	"tare/terminal"
)

const (
	// mostNamed is how many containers are named beside a setting that more are to be given.
	mostNamed = 3
	// anyContainer stands for a container's name in a command that is for several.
	anyContainer = "CONTAINER"
)

// proposal is a setting, with the containers for which it is proposed. A page has each once: twenty equal
// health checks would fill a screen with one sentence.
type proposal struct {
	says, command string
	containers    []string
	least, most   float64       // saved in each second by one container; 0 where that is unknown
	p99, p99Now   time.Duration // the greatest of a container, as [Remedy] has it
}

// proposals are what to set, the best first. Settings are equal where their commands differ by the
// container's name alone.
func proposals(found ...Finding) (all []proposal) {
	at := map[[2]string]int{}
	for _, f := range found {
		for _, to := range f.Set {
			key := [2]string{to.Says, forAny(to.Command, f.Container)}
			i, isKnown := at[key]
			if !isKnown {
				i = len(all)
				at[key] = i
				all = append(all, proposal{says: to.Says, command: to.Command, least: to.Saves})
			}
			p := &all[i]
			p.least, p.most = min(p.least, to.Saves), max(p.most, to.Saves)
			p.p99, p.p99Now = max(p.p99, to.P99), max(p.p99Now, to.P99Now)
			if !slices.Contains(p.containers, f.Container) {
				p.containers = append(p.containers, f.Container)
			}
			if len(p.containers) > 1 {
				p.command = key[1]
			}
		}
	}
	return all
}

// forAny replaces a container's name in a command, where it is a word. Of several such words the last is
// the name: a container may be called "update".
func forAny(command, name string) string {
	words := strings.Split(command, " ")
	for i, word := range slices.Backward(words) {
		if word == terminal.Shell(name) {
			words[i] = anyContainer
			break
		}
	}
	return strings.Join(words, " ")
}

// of names the containers; of many it names some and says how many there are.
func (p proposal) of() string {
	count := len(p.containers)
	if count == 1 {
		return p.containers[0]
	}
	names := strings.Join(p.containers[:min(count, mostNamed)], ", ")
	if count > mostNamed {
		names += fmt.Sprintf(" and %d more", count-mostNamed)
	}
	return fmt.Sprintf("%d containers (%s)", count, names)
}

// text is the setting, and what it promises.
func (p proposal) text() string {
	several := len(p.containers) > 1
	switch {
	case p.p99 > 0 && several:
		return fmt.Sprintf("%s: predicted p99 of a piece of work at most %s each, now at most %s", p.says, short(p.p99), short(p.p99Now))
	case p.p99 > 0:
		return fmt.Sprintf("%s: predicted p99 of a piece of work %s, now %s", p.says, short(p.p99), short(p.p99Now))
	case p.most == 0:
		return p.says
	}
	saved := report.Rounded(p.least, 2)
	if most := report.Rounded(p.most, 2); most != saved {
		saved += " to " + most
	}
	text := fmt.Sprintf("%s: saves %s s/s", p.says, saved)
	if several {
		text += " each"
	}
	return text
}
