package workload

import (
	"maps"
	"strconv"

	"tare/image"
)

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
		return SourceOf(s.Workload, s.Params)
	}
	return s.Source
}

// inImage is a workload whose image holds the data that it reads, and which has another
// image with as much as S1's.
type inImage interface{ dataInImage() }

// SourceOf is where a workload's image comes from, by its parameters: with data=500 it
// holds as much as S1's data sets.
func SourceOf(w Workload, p map[string]string) Source {
	source := w.Source()
	data, _ := strconv.ParseInt(p["data"], 10, 64) // as the plan reads it: "0500" is 500
	if _, ok := w.(inImage); ok && data == image.LargeData {
		source.Recipe = image.Large(source.Recipe)
	}
	return source
}

// Large gives the subject as much data as S1's programs had, where an image holds them.
func (s Subject) Large() Subject {
	if _, ok := s.Workload.(inImage); ok {
		s, _ = s.With("data", strconv.Itoa(image.LargeData))
	}
	return s
}

// made tells that data of a size are not in the image, but made in /data.
func made(mebibytes, inImage int64) bool {
	return mebibytes > inImage && mebibytes != image.LargeData
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
