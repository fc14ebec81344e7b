package workload

import "maps"

// Subject is a workload as the user asks for it: with the parameters that were
// set, and the image to run it in where it is not its own.
type Subject struct {
	Workload Workload
	Source   Source
	Params   map[string]string
}

// Image is where the subject's image comes from.
func (s Subject) Image() Source {
	if s.Source == (Source{}) {
		return s.Workload.Source()
	}
	return s.Source
}

// With gives the subject with a parameter set; taken is false where its workload
// has none of that name.
func (s Subject) With(name, value string) (_ Subject, taken bool) {
	for _, p := range s.Workload.Params() {
		if p.Name != name {
			continue
		}
		s.Params = maps.Clone(s.Params)
		if s.Params == nil {
			s.Params = map[string]string{}
		}
		s.Params[name] = value
		return s, true
	}
	return s, false
}
