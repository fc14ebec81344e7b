package overhead

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"tare/record"
)

// hostDifferences names what differs between two fingerprints.
func hostDifferences(was, is record.Host) []string {
	var all []string
	for _, d := range differences(was, is, nil) {
		all = append(all, "host: "+d)
	}
	return all
}

// passing are the facts in force that differ from launch to launch without
// telling a difference in what was granted.
var passing = map[string]bool{"cgroups": true, "env": true, "stdout": true}

// conditionDifferences names what two conditions of one ID do not share.
func conditionDifferences(was, is *record.Condition) []string {
	var all []string
	add := func(what, a, b string) {
		if a != b {
			all = append(all, is.ID+": "+changed(what, a, b))
		}
	}
	add("image", was.Image, is.Image)
	add("platform", was.Version, is.Version)
	add("setting", was.Setting.String(), is.Setting.String())
	for _, d := range differences(was.Params, is.Params, nil) {
		all = append(all, is.ID+": parameter "+d)
	}
	if was.Process != nil && is.Process != nil {
		for _, d := range differences(was.Process, is.Process, nil) {
			all = append(all, is.ID+": program's "+d)
		}
	}
	if was.InForce != nil && is.InForce != nil {
		for _, d := range differences(was.InForce, is.InForce, passing) {
			all = append(all, is.ID+": in force "+d)
		}
	}
	if why := is.NotRepresentative; why != "" || was.NotRepresentative != "" {
		add("not representative", was.NotRepresentative, why)
	}
	return all
}

// differences lists what two values of one type, as JSON, differ in, by path.
func differences(a, b any, except map[string]bool) []string {
	was, is := map[string]string{}, map[string]string{}
	flatten(a, was)
	flatten(b, is)
	names := map[string]bool{}
	for name := range was {
		names[name] = true
	}
	for name := range is {
		names[name] = true
	}
	var all []string
	for name := range names {
		head, _, _ := strings.Cut(name, ".")
		if !except[head] && was[name] != is[name] {
			all = append(all, changed(name, was[name], is[name]))
		}
	}
	sort.Strings(all)
	return all
}

func changed(what, was, is string) string {
	return fmt.Sprintf("%s %s before, %s now", what, orNone(was), orNone(is))
}

func flatten(v any, to map[string]string) {
	data, err := json.Marshal(v)
	if err != nil {
		return // plain structs and maps of strings always marshal
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				name := key
				if path != "" {
					name = path + "." + key
				}
				walk(name, inner)
			}
		case []any:
			parts := make([]string, len(v))
			for i, inner := range v {
				parts[i] = fmt.Sprint(inner)
			}
			to[path] = strings.Join(parts, ",")
		case float64:
			to[path] = fmt.Sprintf("%.0f", v) // fingerprints hold whole numbers
		case nil:
		default:
			to[path] = fmt.Sprint(v)
		}
	}
	walk("", tree)
}
