package platform

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/process"
)

// Process is how the program of a spec is executed, the same on every platform.
type Process struct {
	Args []string     `json:"args"`
	Env  []string     `json:"env"` // in the order in which the program receives it
	Dir  string       `json:"dir"` // from the root; made where the root file system has none
	User process.User `json:"user"`
	// Program is the file that Args[0] means, from the root or from Dir.
	Program string `json:"program"`
}

// Process reads the image's configuration as `docker run` reads it, below what the spec
// says. All of it is settled here, in the image's root file system, so that no platform
// settles it its own way. The error is one line, and the same on every platform.
func (s Spec) Process() (Process, error) {
	p, err := s.process()
	if err != nil {
		return p, fmt.Errorf("image %s: %w", s.Image.Name, err)
	}
	return p, nil
}

func (s Spec) process() (Process, error) {
	if len(s.Args) == 0 {
		return Process{}, errors.New("no program was named")
	}
	config := s.Image.Config
	user, err := s.Image.User(cmp.Or(s.User, config.User))
	if err != nil {
		return Process{}, err
	}
	dir, err := s.workingDir()
	if err != nil {
		return Process{}, err
	}
	p := Process{
		Args: asText(s.Args), Dir: dir, User: user.User,
		Env: asText(environment(config.Env, s.Env, user.Home)),
	}
	for _, text := range slices.Concat(p.Args, p.Env, []string{p.Dir}) {
		if strings.ContainsRune(text, 0) {
			return Process{}, fmt.Errorf("%q holds a NUL byte, which no argument, variable or path can", text)
		}
	}
	if p.Program = p.Args[0]; s.Edits.show(p.Program) {
		return p, nil
	}
	p.Program, err = process.LookPath(s.Image.Root, p.Dir, p.Args[0], process.SearchPath(p.Env))
	return p, err
}

// workingDir is where the program starts. It need not exist.
func (s Spec) workingDir() (string, error) {
	dir := asText([]string{cmp.Or(s.Dir, s.Image.Config.WorkingDir, "/")})[0]
	if !path.IsAbs(dir) {
		return "", fmt.Errorf("working directory %q: want an absolute path, such as /app", dir)
	}
	dir = path.Clean(dir)
	at, err := image.Resolve(s.Image.Root, dir)
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for ; at != "/"; at = path.Dir(at) {
		pinned, err := file.PinIn(s.Image.Root, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			isDir := pinned.IsDirectory()
			_ = pinned.Close()
			if isDir {
				break
			}
		}
		return "", fmt.Errorf("working directory %s: %s is no directory in the image", dir, at)
	}
	return dir, nil
}

// environment is what the program of an image finds in its environment, in the order and
// with the rules of `docker run`: the defaults of the engine, then own, then the image's
// variables that own does not name. Later entries win, and each name stays where it first
// stood; Docker takes the image's first entry of a name instead where own is not empty. An
// entry without "=" sets nothing: in own it takes away the image's variable of that name,
// and anywhere the engine's default. One without a name is left out: runc refuses it, and
// crun passes it on. HOME, unless it is set and not empty, is the user's.
func environment(of, own []string, home string) []string {
	owned := map[string]bool{}
	for _, entry := range own {
		owned[variable(entry)] = true
	}
	config := slices.Concat(own, slices.DeleteFunc(slices.Clone(of), func(e string) bool { return owned[variable(e)] }))
	at := map[string]int{} // in env
	env := slices.Clone(Surroundings.Env)
	for i, entry := range env {
		at[variable(entry)] = i
	}
	set := func(entry string) {
		name := variable(entry)
		if i, there := at[name]; there {
			env[i] = entry
			return
		}
		at[name] = len(env)
		env = append(env, entry)
	}
	withheld := map[string]bool{}
	for _, entry := range config {
		switch name := variable(entry); {
		case name == "":
		case name != entry:
			set(entry)
			delete(withheld, name)
		default:
			i, there := at[name]
			withheld[name] = there && i < len(Surroundings.Env)
		}
	}
	if i, there := at["HOME"]; !there || env[i] == "HOME=" {
		set("HOME=" + home)
	}
	return slices.DeleteFunc(env, func(e string) bool { return withheld[variable(e)] })
}

// variable is the name in an entry of an environment.
func variable(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// Withheld are the variables, by name, that the image or an engine would set and that the
// program is not to have: an engine that is given them as entries without "=" sets none.
func (s Spec) Withheld(p Process) []string {
	seen := map[string]bool{}
	for _, entry := range p.Env {
		seen[variable(entry)] = true
	}
	var names []string
	for _, entry := range slices.Concat(Surroundings.Env, s.Image.Config.Env) {
		if name := variable(entry); name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// asText makes each byte that is not UTF-8 a replacement character, as every runtime and
// engine does whose configuration is JSON.
func asText(all []string) []string {
	text := make([]string, len(all))
	for i, s := range all {
		text[i] = string([]rune(s))
	}
	return text
}
