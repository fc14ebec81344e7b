package cli

import (
	"maps"
	"slices"
	"strings"

	"tare/workload"
)

// separated takes arguments that are lists, "redis,httpd", apart.
func separated(args []string) []string {
	var names []string
	for _, arg := range args {
		names = append(names, strings.Split(arg, ",")...)
	}
	return names
}

// readSubjects finds the workloads that are named, of ours or in files, and
// gives them the parameters NAME=VALUE, each to those that have it. image, where
// it is not empty, takes the place of their own.
func readSubjects(names, params []string, image string) ([]workload.Subject, error) {
	if slices.Equal(names, []string{"all"}) {
		names = nil
		for _, w := range workload.All() {
			names = append(names, w.Name())
		}
	}
	var subjects []workload.Subject
	for _, name := range names {
		var w workload.Workload
		var err error
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			if w, err = workload.FromYAML(name); err != nil {
				return nil, withCode(exitUsage, err)
			}
		} else if w, err = workload.Lookup(name); err != nil {
			return nil, err
		}
		subjects = append(subjects, workload.Subject{Workload: w})
	}
	return setSubjects(subjects, params, image)
}

// setSubjects gives subjects parameters and an image.
func setSubjects(subjects []workload.Subject, params []string, image string) ([]workload.Subject, error) {
	set := map[string]string{}
	for _, text := range params {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError("--param %s: want NAME=VALUE", text)
		}
		set[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		takers := 0
		for i, s := range subjects {
			s, taken := s.With(name, set[name])
			if taken {
				subjects[i] = s
				takers++
			}
		}
		if takers == 0 {
			return nil, usageError("--param %s: no workload here has such a parameter (`tare workloads`)", name)
		}
	}
	if image != "" {
		for i := range subjects {
			subjects[i].Source = workload.Source{Image: image}
		}
	}
	return subjects, nil
}
