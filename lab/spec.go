package lab

import (
	"fmt"
	"slices"

	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// SpecOf is what a condition launches of its workload's program: the program's own words
// over those of the image. Where neither names a command the error says so.
func SpecOf(name string, img image.Image, program workload.Program, c record.Condition) (platform.Spec, error) {
	args := program.Args
	if len(args) == 0 {
		command := program.Command
		if len(command) == 0 {
			command = img.Config.Cmd
		}
		args = slices.Concat(img.Config.Entrypoint, command)
	}
	if len(args) == 0 {
		return platform.Spec{}, fmt.Errorf("image %s names no command: give one after --", img.Name)
	}
	var shown platform.Edits
	for _, s := range program.Shown {
		shown.Mounts = append(
			shown.Mounts, platform.Mount{Source: s.Source, Target: s.Target, Directory: s.Directory, ReadOnly: true})
	}
	return platform.Spec{
		Edits: shown,
		Name:  name, Image: img, Args: args, Env: program.Env, Dir: program.Dir, User: program.User,
		Setting: c.Setting, Ports: program.Ports, Data: program.Data,
	}, nil
}

// processOf is how a condition's program will be executed; nil where a procedure launches
// something of its own. What cannot be executed at all, such as for a user whom the image
// does not know, is an [*Unfit].
func processOf(c Condition, on platform.Platform, img image.Image) (*platform.Process, error) {
	if c.Procedure != nil || c.Program == nil || img.Root == "" {
		return nil, nil
	}
	program, _, err := ProgramOf(c, on)
	if err != nil {
		return nil, nil // as in [fit]
	}
	spec, err := SpecOf("", img, program, c.Condition)
	if err != nil {
		return nil, &Unfit{c.Workload, err.Error()}
	}
	if spec, err = spec.Grant(); err != nil {
		return nil, nil // a device that this host lacks: the platform's to say
	}
	process, err := spec.Process()
	if err != nil {
		return nil, &Unfit{c.Workload, err.Error()}
	}
	process.Env = program.Record(process.Env)
	return &process, nil
}
