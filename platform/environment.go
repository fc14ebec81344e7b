package platform

import (
	"slices"
	"strings"
)

// Environment is what the program of the spec finds in its environment: the
// image's, then [Surroundings], then the spec's own; later entries win, and
// each key stays where it first stood.
func (s Spec) Environment() []string {
	var env []string
	at := map[string]int{}
	for _, entry := range slices.Concat(s.Image.Config.Env, Surroundings.Env, s.Env) {
		key, _, _ := strings.Cut(entry, "=")
		if i, seen := at[key]; seen {
			env[i] = entry
			continue
		}
		at[key] = len(env)
		env = append(env, entry)
	}
	return env
}
