package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Example is a file that says what is so by default, each key with its meaning, and
// examples of rules and tiers in comments.
func Example() string {
	var b strings.Builder
	comment(&b, "The configuration of annexd. Each key is as it is by default, and may be left out. Sizes have a unit (KiB, MiB, GiB; kB, MB, GB), times too (ms, s, m, h), shares are in percent. What is in no list is refused: annex config FILE checks it, annex reload puts it in force.")
	fmt.Fprintf(&b, "\nversion = %d\n", Version)
	config := Default()
	for _, s := range sections {
		b.WriteByte('\n')
		if s.name != "" {
			comment(&b, s.doc)
			fmt.Fprintf(&b, "[%s]\n", s.name)
		}
		for _, k := range s.keys {
			comment(&b, k.doc+" "+strings.ToUpper(k.values[:1])+k.values[1:]+".")
			if v := k.get(&config); v != "" {
				fmt.Fprintf(&b, "%s = %s\n", k.name, v)
			}
		}
	}
	b.WriteByte('\n')
	comment(&b, "Containers get their class from the first rule of which every pattern fits; those that none fits are ignored.")
	for _, r := range exampleRules {
		b.WriteString(commented(block(ruleTable, ruleKeys, r)))
	}
	b.WriteByte('\n')
	comment(&b, "Swap is what is on, by its priorities. A tier bounds what is written to an area of it.")
	for _, t := range exampleTiers {
		b.WriteString(commented(block(tierTable, tierKeys, t)))
	}
	return b.String()
}

var exampleRules = []Rule{
	{Class: "critical", Name: "booking-*"},
	{Class: "elastic", Label: "tier=idle"},
	{Class: "elastic", Image: "registry.example.com/functions/*"},
	{Class: "elastic", Cgroup: "/batch.slice/*"},
}

var exampleTiers = []Tier{
	{Area: "/var/swap", WriteRate: 100 * mebibyte, WriteDaily: 200e9, Endurance: 600 * terabyte, Years: 5},
}

// String writes a whole configuration as a file would say it.
func (c Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = %d\n", Version)
	for _, s := range sections {
		if s.name != "" {
			fmt.Fprintf(&b, "\n[%s]\n", s.name)
		}
		for _, k := range s.keys {
			if v := k.get(&c); v != "" {
				fmt.Fprintf(&b, "%s = %s\n", k.name, v)
			}
		}
	}
	for _, r := range c.Rules {
		b.WriteString("\n" + block(ruleTable, ruleKeys, r))
	}
	for _, t := range c.Tiers {
		b.WriteString("\n" + block(tierTable, tierKeys, t))
	}
	return b.String()
}

func block[T any](name string, keys []key[T], of T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[%s]]\n", name)
	for _, k := range keys {
		if v := k.get(&of); v != "" {
			fmt.Fprintf(&b, "%s = %s\n", k.name, v)
		}
	}
	return b.String()
}

func commented(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString("#" + line)
	}
	return b.String()
}

// comment writes a text as comments, of lines that fit a screen.
func comment(b *strings.Builder, text string) {
	const width = 80
	line := "#"
	for _, word := range strings.Fields(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// Reference is the keys as tables of Markdown, for docs/annex/configuration.md.
func Reference() string {
	var b strings.Builder
	config := Default()
	for _, s := range sections {
		if s.name == "" {
			b.WriteString("Above all tables:\n\n")
		} else {
			fmt.Fprintf(&b, "\n`[%s]`: %s\n\n", s.name, s.doc)
		}
		referenceHead(&b, "by default")
		if s.name == "" {
			fmt.Fprintf(&b, "| `%s` | %d | `%d` | The version of these keys. |\n", versionKey, Version, Version)
		}
		for _, k := range s.keys {
			doc := k.doc
			if k.fixed {
				doc += " A change takes a restart."
			}
			fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", k.name, k.values, k.get(&config), doc)
		}
	}
	b.WriteString("\n`[[rule]]`, as many as wanted: the first that fits a container gives it its class. At least one pattern; all that are given must fit.\n\n")
	referenceList(&b, ruleKeys, exampleRules)
	b.WriteString("\n`[[tier]]`, as many as there are swap areas to bound:\n\n")
	referenceList(&b, tierKeys, exampleTiers)
	return b.String()
}

func referenceHead(b *strings.Builder, third string) {
	fmt.Fprintf(b, "| key | says | %s | meaning |\n|---|---|---|---|\n", third)
}

// referenceList writes the keys of tables that have no defaults, each with an example.
func referenceList[T any](b *strings.Builder, keys []key[T], examples []T) {
	referenceHead(b, "as in")
	for _, k := range keys {
		example := ""
		for i := range examples {
			if example = k.get(&examples[i]); example != "" {
				break
			}
		}
		fmt.Fprintf(b, "| `%s` | %s | `%s` | %s |\n", k.name, k.values, example, k.doc)
	}
}
