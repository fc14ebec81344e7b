package command

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// leadingMark annotates the flags that short help shows.
const leadingMark = "leading"

// helpWidth is the number of columns that help takes at most.
const helpWidth = 80

// Leading marks the flags that short help shows. A command that marks none has no other help than
// the whole.
func Leading(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, leadingMark, []string{}); err != nil {
			panic(fmt.Sprintf("%s: %v", cmd.Name(), err))
		}
	}
}

// wholeHelp takes --all out of a command line that asks for help, and reports whether it was there.
func wholeHelp(args []string) (rest []string, whole bool) {
	flags := args
	if end := slices.Index(args, "--"); end >= 0 {
		flags = args[:end]
	}
	asks := slices.Contains(flags, "--help") || slices.Contains(flags, "-h") || firstWord(flags) == "help"
	if !asks || !slices.Contains(flags, "--all") {
		return args, false
	}
	rest = slices.DeleteFunc(slices.Clone(flags), func(arg string) bool { return arg == "--all" })
	return append(rest, args[len(flags):]...), true
}

// firstWord is the first argument that is neither a flag of the program nor the value of one.
func firstWord(args []string) string {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
		if !strings.Contains(args[i], "=") {
			i++
		}
	}
	return ""
}

// help prints the short help of commands: examples first, and the flags that most users need. With
// whole it prints all flags, and how the command works.
func help(whole bool) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) { _, _ = io.WriteString(cmd.OutOrStdout(), helpText(cmd, whole)) }
}

// Help is the whole help of a command.
func Help(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		cmd.Version = Version()
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return helpText(cmd, true)
}

func helpText(cmd *cobra.Command, whole bool) string {
	leading, rest := leadingFlags(cmd)
	shown := 0
	leading.VisitAll(func(*pflag.Flag) { shown++ })
	short := len(rest) > 0 && !whole
	about := cmd.Short
	if !short && cmd.Long != "" {
		about = cmd.Long
	}
	sections := []string{about}
	add := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			sections = append(sections, title+"\n"+text)
		}
	}
	add("Examples:", cmd.Example)
	switch {
	case !cmd.HasAvailableSubCommands():
		add("Usage:", "  "+cmd.UseLine())
	case strings.Contains(cmd.Use, " "): // it takes arguments of its own, too
		add("Usage:", "  "+cmd.UseLine()+"\n  "+cmd.CommandPath()+" COMMAND")
	case cmd.HasParent():
		add("Usage:", "  "+cmd.CommandPath()+" COMMAND")
	default:
		add("Usage:", "  "+cmd.CommandPath()+" [COMMAND]")
	}
	for _, g := range cmd.Groups() {
		add(g.Title, commandList(cmd, g.ID))
	}
	title := "Commands:"
	if len(cmd.Groups()) > 0 {
		title = "More commands:"
	}
	add(title, commandList(cmd, ""))
	if short {
		add("Flags that most users need:", flagList(leading))
		add(fmt.Sprintf("All of %d flags, and how it works:", len(rest)+shown), "  "+cmd.CommandPath()+" --help --all")
	} else {
		add("Flags:", flagList(cmd.LocalFlags()))
		add("Flags of all commands:", flagList(cmd.InheritedFlags()))
	}
	if cmd.HasAvailableSubCommands() {
		sections = append(sections, cmd.CommandPath()+" COMMAND --help explains a command.")
	}
	return strings.Join(sections, "\n\n") + "\n"
}

// commandList lists the subcommands of a group, a line each.
func commandList(cmd *cobra.Command, group string) string {
	var text strings.Builder
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(&text, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	return text.String()
}

// flagTypes are the words for what a flag takes, in place of the library's.
var flagTypes = map[string]string{
	"string": "TEXT", "strings": "LIST", "stringArray": "TEXT", "int": "N", "ints": "LIST", "float": "N", "duration": "TIME",
}

// flagType finds the library's word in a line of its list.
var flagType = regexp.MustCompile(`(?m)^( {2}(?:-\w, | {4})--[\w-]+ )(\w+)\b`)

// flagList lists flags, as wide as help is.
func flagList(flags *pflag.FlagSet) string {
	return flagType.ReplaceAllStringFunc(flags.FlagUsagesWrapped(helpWidth), func(line string) string {
		m := flagType.FindStringSubmatch(line)
		word, ok := flagTypes[m[2]]
		if !ok {
			return line
		}
		return fmt.Sprintf("%s%-*s", m[1], len(m[2]), word)
	})
}

// leadingFlags are the flags that short help shows, in the command's order, and the names of the
// others; the others are none where the command marks none.
func leadingFlags(cmd *cobra.Command) (leading *pflag.FlagSet, rest []string) {
	leading = pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	leading.SortFlags = false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[leadingMark]; ok {
			leading.AddFlag(f)
		} else if !f.Hidden && f.Name != "help" {
			rest = append(rest, f.Name)
		}
	})
	if !leading.HasFlags() {
		rest = nil
	}
	return leading, rest
}
