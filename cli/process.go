package cli

import (
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"tare/workload"
)

// processFlags say how an image's program is executed, named as docker names them. What
// they leave open is the image's own.
type processFlags struct {
	flags                     *pflag.FlagSet
	env                       []string
	workdir, user, entrypoint string
}

func (p *processFlags) register(flags *pflag.FlagSet) {
	p.flags = flags
	flags.StringArrayVar(&p.env, "env", nil, "`NAME=VALUE` for the image's program; NAME alone passes tare's own value, which is not recorded, or removes the image's variable where tare has none; may be repeated")
	flags.StringVar(&p.workdir, "workdir", "", "`DIR` inside that the image's program starts in, made where it is absent")
	flags.StringVar(&p.user, "user", "", "`USER[:GROUP]` of the image, by name or id, that its program runs as")
	flags.StringVar(&p.entrypoint, "entrypoint", "", "`PROGRAM` in place of the image's entry point and command; \"\" runs COMMAND without it")
}

// userShape is USER or USER:GROUP; whom the image knows is its own to say.
var userShape = regexp.MustCompile(`^[^:\s-][^:\s]*(:[^:\s-][^:\s]*)?$`)

// program is what the flags, and the command after --, say of the program. named is one of
// these that was given; empty where none was.
func (p *processFlags) program(command []string) (program workload.Program, named string, err error) {
	for _, flag := range []string{"entrypoint", "user", "workdir", "env"} {
		if p.flags.Changed(flag) {
			named = "--" + flag
		}
	}
	if len(command) > 0 {
		named = "a COMMAND after --"
	}
	program = workload.Program{Command: command, Dir: p.workdir, User: p.user}
	switch {
	case p.entrypoint != "":
		program.Args, program.Command = append([]string{p.entrypoint}, command...), nil
	case p.flags.Changed("entrypoint") && len(command) == 0:
		return program, named, usageError(`--entrypoint "": it takes the image's entry point and command away: give a COMMAND after --`)
	case p.flags.Changed("entrypoint"):
		program.Args, program.Command = command, nil
	}
	if p.flags.Changed("workdir") && !path.IsAbs(p.workdir) {
		return program, named, usageError("--workdir %q: want an absolute path inside, such as /srv", p.workdir)
	}
	if p.flags.Changed("user") && !userShape.MatchString(p.user) {
		return program, named, usageError("--user %q: want USER or USER:GROUP, by name or id", p.user)
	}
	for _, entry := range p.env {
		if name, _, _ := strings.Cut(entry, "="); name == "" {
			return program, named, usageError("--env %q: want NAME=VALUE, or NAME alone for the value that it has here", entry)
		}
		if value, set := os.LookupEnv(entry); set && !strings.Contains(entry, "=") {
			program.Unrecorded = append(program.Unrecorded, entry)
			entry += "=" + value
		}
		program.Env = append(program.Env, entry)
	}
	return program, named, nil
}
