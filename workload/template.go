package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// value is a scalar of a workload's file, which may refer to parameters as
// ${name}. It knows where it stands.
type value struct {
	text string
	at   position
}

// variables gives what a name stands for.
type variables func(name string) (text string, ok bool)

var reference = regexp.MustCompile(`\$\$|\$\{([^{}]*)\}`)

// expand puts in what its references stand for; "$$" stands for a dollar.
func (v value) expand(vars variables, known func() []string) (string, error) {
	var unknown error
	text := reference.ReplaceAllStringFunc(v.text, func(match string) string {
		if match == "$$" {
			return "$"
		}
		name := match[2 : len(match)-1]
		text, ok := vars(name)
		if !ok && unknown == nil {
			unknown = v.at.wrong("${%s} stands for nothing; known: %s; $${ is a plain ${", name, list(known()))
		}
		return text
	})
	return text, unknown
}

// set tells whether the file has the value at all.
func (v value) set() bool { return v.at.line > 0 }

// list names things for an error.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// scope is what values are expanded in: the parameters, and addresses. For what meets
// the service from outside they are where it answers, for its program where it listens.
type scope struct {
	params    Params
	addresses func(port int) string // nil where there are none
	names     []string              // that refer to them
	ports     []int
}

// addressNames are the references to where a service answers: of its first
// port, or with ":PORT" of any. listenNames are those to where its program is to listen.
var (
	addressNames = []string{"address", "host", "port"}
	listenNames  = []string{"listen", "port"}
)

// refersTo tells whether a value has the reference.
func (v value) refersTo(name string) bool {
	for _, match := range reference.FindAllStringSubmatch(v.text, -1) {
		if match[1] == name {
			return true
		}
	}
	return false
}

func (s scope) known() []string {
	var names []string
	for name := range s.params {
		names = append(names, name)
	}
	if s.addresses != nil && len(s.ports) > 0 {
		names = append(names, s.names...)
		for _, port := range s.ports {
			for _, name := range s.names {
				names = append(names, fmt.Sprintf("%s:%d", name, port))
			}
		}
	}
	slices.Sort(names)
	return names
}

func (s scope) lookup(name string) (string, bool) {
	if text, ok := s.params[name]; ok {
		return text, true
	}
	if s.addresses == nil || len(s.ports) == 0 {
		return "", false
	}
	kind, of, chosen := strings.Cut(name, ":")
	if !slices.Contains(s.names, kind) {
		return "", false
	}
	port := s.ports[0]
	if chosen {
		i := slices.IndexFunc(s.ports, func(p int) bool { return fmt.Sprint(p) == of })
		if i < 0 {
			return "", false
		}
		port = s.ports[i]
	}
	return addressPart(kind, s.addresses(port))
}

// addressPart is the whole of host:port, or one side of it.
func addressPart(kind, address string) (string, bool) {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return "", false
	}
	switch kind {
	case "address":
		return address, true
	case "host", "listen":
		return strings.Trim(address[:colon], "[]"), true
	case "port":
		return address[colon+1:], true
	}
	return "", false
}

func (s scope) expand(v value) (string, error) { return v.expand(s.lookup, s.known) }

func (s scope) expandAll(values []value) ([]string, error) {
	var out []string
	for _, v := range values {
		text, err := s.expand(v)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}
