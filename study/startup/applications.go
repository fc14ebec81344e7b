package startup

import (
	"maps"
	"slices"

	"tare/workload"
)

// application is one of S1's nine, with what stands for it here.
type application struct {
	workload, access string
	standIn          string // what it is where it is not what S1 ran
}

// applications are S1's. Its functions are described well enough to be written again, and
// differ in what they touch of their input.
var applications = []application{
	{workload: "multimodel", standIn: "ArcadeDB for ArangoDB"},
	{workload: "docstore", standIn: "mongo-java-server for MongoDB"},
	{workload: "httpd"},
	{workload: "pagerank", standIn: "PageRank of our own for Graphchi's"},
	{workload: "fio"},
	{workload: "hashing", access: "dense"},
	{workload: "hashing", access: "sparse"},
	{workload: "uri-parser", access: "dense"},
	{workload: "uri-parser", access: "sparse"},
}

// name is the application's in a run, as [namesOf] has it.
func (a application) name() string {
	if a.access == "" {
		return a.workload
	}
	return a.workload + " access=" + a.access
}

// S1 are the applications of S1.
func S1() ([]workload.Subject, error) {
	var all []workload.Subject
	for _, a := range applications {
		w, err := workload.Lookup(a.workload)
		if err != nil {
			return nil, err
		}
		s := workload.Subject{Workload: w}
		if a.access != "" {
			s.Params = map[string]string{"access": a.access}
		}
		all = append(all, s)
	}
	return all, nil
}

// standsFor says what a workload stands for, or that it is none of S1's; empty where it
// is S1's own.
func standsFor(subject string) string {
	for _, a := range applications {
		if subject == a.workload || subject == a.name() {
			return a.standIn
		}
	}
	return subject
}

// namesOf are subjects' names: of several of one workload, with the parameters that were
// set, by which they differ.
func namesOf(subjects []workload.Subject) []string {
	count := map[string]int{}
	for _, s := range subjects {
		count[s.Workload.Name()]++
	}
	var names []string
	for _, s := range subjects {
		name := s.Workload.Name()
		if count[name] > 1 {
			for _, param := range slices.Sorted(maps.Keys(s.Params)) {
				name += " " + param + "=" + s.Params[param]
			}
		}
		names = append(names, name)
	}
	return names
}
