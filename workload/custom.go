package workload

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tare/load"
)

// Away, where it is not nil, reads the files of workloads in place of os.ReadFile: they run on other machines than
// the one where the files lie, and have nothing of what lies beside them. It is set before the first is read.
var Away func(path string) ([]byte, error)

// FromYAML reads a workload of the user's own from a file; docs/workloads.md
// describes it. An error about what the file says is a *Malformed.
//
// All of the file is checked with its parameters' defaults, so that what is
// returned fails for wrong parameters and for what the program does, alone.
func FromYAML(path string) (Workload, error) {
	read := os.ReadFile
	if Away != nil {
		read = Away
	}
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	return fromYAML(path, data)
}

func fromYAML(path string, data []byte) (Workload, error) {
	root, err := parseYAML(path, data)
	if err != nil {
		return nil, err
	}
	c, err := readCustom(root)
	if err != nil {
		return nil, err
	}
	if c.source, err = beside(path, c.source); err != nil {
		return nil, err
	}
	defaults := Params{}
	for _, p := range c.params {
		defaults[p.Name] = p.Default
	}
	if _, err := c.Program(defaults); err != nil {
		return nil, err
	}
	switch {
	case c.service && c.load.kind != "command":
		return customLoader{customService{c}}, nil
	case c.service:
		return customService{c}, nil
	}
	return c, nil
}

// customService is a workload from a file that can be asked whether it serves.
type customService struct{ *custom }

// Ready waits until what the file says under ready holds.
func (c customService) Ready(ctx context.Context, t Trial) error {
	ready, err := c.ready.compile(c.outside(t.Params(), t.Address))
	if err != nil {
		return err
	}
	return ready.await(ctx, t)
}

// Listens tells that what is waited for stands in the program's output.
func (c customService) Listens() bool { return c.ready.kind == "output" || c.ready.kind == "log" }

// customLoader is one whose load is made by tare's own generator.
type customLoader struct{ customService }

// Offered is what the file says of its load.
func (c customLoader) Offered(p Params) (Offered, error) {
	// Where it answers does not matter to that.
	loading, err := c.load.compile(c.outside(p, nowhere))
	return offered(loading.options), err
}

// Load loads the service as its file says; the file's own seed still tells.
func (c customLoader) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	loading, err := c.load.compile(c.outside(t.Params(), t.Address))
	if err != nil {
		return load.Result{}, err
	}
	return loadTargetOnce(ctx, t, loading.dialled(t), loading.options, seed^loading.options.Seed)
}

var (
	_ Sustainer = customService{}
	_ Loader    = customLoader{}
)

// Sustained leaves the file's parameters as they are.
func (customService) Sustained() (p Params, steady bool) { return nil, true }

// Sustain loads the service as its file says, for as long as is wanted in place of the
// file's own duration and count: our generator goes on, a load program is run again
// and again.
func (c customService) Sustain(ctx context.Context, t Trial, seed uint64) error {
	loading, err := c.load.compile(c.outside(t.Params(), t.Address))
	if err != nil {
		return err
	}
	return loading.sustain(ctx, t, seed)
}

// beside takes relative paths from the file's directory. Where the workload runs on other machines, they name nothing.
func beside(file string, s Source) (Source, error) {
	for key, path := range map[string]*string{"archive": &s.Archive, "rootfs": &s.Rootfs} {
		if *path == "" || filepath.IsAbs(*path) {
			continue
		}
		if Away != nil {
			return s, &Malformed{File: file, Key: "image." + key,
				Problem: fmt.Sprintf("%s lies beside the file, which no node has: give an absolute path on the nodes", *path)}
		}
		*path = filepath.Join(filepath.Dir(file), *path)
	}
	return s, nil
}

// custom is a workload from a file.
type custom struct {
	at            position
	name, summary string
	source        Source
	params        []Param

	command []value
	env     []variable
	dir     value
	data    []value
	ports   []int
	memory  value
	service bool

	ready   readySpec
	load    loadSpec
	metrics []customMetric
}

// variable is an environment variable.
type variable struct {
	name string
	value
}

var customKeys = []string{"name", "summary", "image", "command", "env", "dir", "data", "ports", "memory",
	"kind", "params", "ready", "load", "metrics"}

var (
	workloadName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)
	paramName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	envName      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func readCustom(root node) (*custom, error) {
	f, err := root.mapping(customKeys...)
	if err != nil {
		return nil, err
	}
	c := &custom{at: root.at}
	for _, read := range []func(fields) error{c.readHead, c.readParams, c.readProgram, c.readKind, c.readMetrics} {
		if err := read(f); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// missing is the error for a key that has to be there.
func (c *custom) missing(key, want string) error {
	at := c.at
	at.key = key
	return at.wrong("is missing; want %s", want)
}

func (c *custom) readHead(f fields) error {
	name, ok := f["name"]
	if !ok {
		return c.missing("name", "a short word, such as shop")
	}
	v, err := name.scalar("a short word")
	if err != nil {
		return err
	}
	if !workloadName.MatchString(v.text) {
		return v.at.wrong("%q: want up to 40 lower-case letters, digits, '.', '_' or '-'", v.text)
	}
	c.name, c.summary = v.text, "from "+c.at.file
	if n, ok := f["summary"]; ok {
		v, err := n.scalar("one line of text")
		if err != nil {
			return err
		}
		c.summary = strings.Join(strings.Fields(v.text), " ")
	}
	image, ok := f["image"]
	if !ok {
		return c.missing("image", "one of recipe, archive, rootfs, image")
	}
	kinds, err := image.mapping("recipe", "archive", "rootfs", "image")
	if err != nil {
		return err
	}
	if len(kinds) != 1 {
		return image.at.wrong("has %d keys, want exactly one of recipe, archive, rootfs, image", len(kinds))
	}
	for kind, n := range kinds {
		v, err := n.scalar("a name or path")
		if err != nil {
			return err
		}
		if v.text == "" {
			return v.at.wrong("is empty")
		}
		*map[string]*string{"recipe": &c.source.Recipe, "archive": &c.source.Archive,
			"rootfs": &c.source.Rootfs, "image": &c.source.Image}[kind] = v.text
	}
	return nil
}

func (c *custom) readParams(f fields) error {
	n, ok := f["params"]
	if !ok {
		return nil
	}
	all, err := n.list("parameters, each with name, default and doc")
	if err != nil {
		return err
	}
	for _, each := range all {
		f, err := each.mapping("name", "default", "doc")
		if err != nil {
			return err
		}
		var p Param
		for _, key := range []struct {
			name string
			to   *string
		}{{"name", &p.Name}, {"default", &p.Default}, {"doc", &p.Doc}} {
			n, ok := f[key.name]
			if !ok {
				if key.name == "doc" {
					continue
				}
				return each.at.wrong("lacks the key %s", key.name)
			}
			v, err := n.scalar("a text")
			if err != nil {
				return err
			}
			*key.to = v.text
		}
		if !paramName.MatchString(p.Name) {
			return f["name"].at.wrong("%q: want up to 40 lower-case letters, digits, '_' or '-', a letter first", p.Name)
		}
		if slices.Contains(addressNames, p.Name) {
			return f["name"].at.wrong("%q stands for where the service answers; choose another name", p.Name)
		}
		if slices.ContainsFunc(c.params, func(q Param) bool { return q.Name == p.Name }) {
			return f["name"].at.wrong("%q is a parameter already", p.Name)
		}
		c.params = append(c.params, p)
	}
	return nil
}

func (c *custom) readProgram(f fields) (err error) {
	if n, ok := f["command"]; ok {
		if c.command, err = n.scalars("words, such as [/usr/bin/sort, -n, /data/in]"); err != nil {
			return err
		}
	}
	if n, ok := f["env"]; ok {
		pairs, err := n.pairs("a mapping of variables to values", func(key string) string {
			if !envName.MatchString(key) {
				return "not a name of an environment variable"
			}
			return ""
		})
		if err != nil {
			return err
		}
		for name, n := range pairs {
			v, err := n.scalar("a text")
			if err != nil {
				return err
			}
			c.env = append(c.env, variable{name, v})
		}
		slices.SortFunc(c.env, func(a, b variable) int { return strings.Compare(a.name, b.name) })
	}
	for key, to := range map[string]*value{"dir": &c.dir, "memory": &c.memory} {
		if n, ok := f[key]; ok {
			if *to, err = n.scalar("a text"); err != nil {
				return err
			}
		}
	}
	if n, ok := f["data"]; ok {
		if c.data, err = n.scalars("directories, such as [/data]"); err != nil {
			return err
		}
	}
	if n, ok := f["ports"]; ok {
		ports, err := n.scalars("TCP ports, such as [8080]")
		if err != nil {
			return err
		}
		for _, v := range ports {
			port, err := scope{}.whole(v, 1, 65535, 0)
			if err != nil {
				return err
			}
			if slices.Contains(c.ports, int(port)) {
				return v.at.wrong("port %d is in the list already", port)
			}
			c.ports = append(c.ports, int(port))
		}
	}
	return nil
}

func (c *custom) readKind(f fields) error {
	n, ok := f["kind"]
	if !ok {
		return c.missing("kind", "batch (ends by itself) or service (is loaded and stopped)")
	}
	v, err := n.scalar("batch or service")
	if err != nil {
		return err
	}
	kind, err := scope{}.oneOf(v, "", "batch", "service")
	if err != nil {
		return err
	}
	c.service = kind == "service"
	if !c.service {
		for _, key := range []string{"ready", "load"} {
			if n, ok := f[key]; ok {
				return n.at.wrong("is for kind: service; a batch program runs from launch to its end")
			}
		}
		return nil
	}
	if c.ready, err = readReady(f["ready"], c.ports); err != nil {
		return err
	}
	if c.ready.kind == "" {
		return c.missing("ready", "one of tcp, http, output, log, or else ports: the first is waited for")
	}
	n, ok = f["load"]
	if !ok {
		return c.missing("load", "one of http, resp, command")
	}
	c.load, err = readLoad(n, c.ports)
	return err
}

func (c *custom) Name() string    { return c.name }
func (c *custom) Summary() string { return c.summary }
func (c *custom) Source() Source  { return c.source }
func (c *custom) Params() []Param { return slices.Clone(c.params) }

func (c *custom) Program(p Params) (program Program, err error) {
	inside := scope{params: p, addresses: func(port int) string {
		return net.JoinHostPort(p.listenAddress(), strconv.Itoa(c.portAt(p, port)))
	}, names: listenNames, ports: c.ports}
	program = Program{Service: c.service}
	for _, port := range c.ports {
		program.Ports = append(program.Ports, c.portAt(p, port))
	}
	if program.Args, err = inside.expandAll(c.command); err != nil {
		return Program{}, err
	}
	for _, v := range c.env {
		text, err := inside.expand(v.value)
		if err != nil {
			return Program{}, err
		}
		program.Env = append(program.Env, v.name+"="+text)
	}
	if program.Dir, err = inside.text(c.dir, ""); err != nil {
		return Program{}, err
	}
	if program.Dir != "" && !strings.HasPrefix(program.Dir, "/") {
		return Program{}, c.dir.at.wrong("%q: want an absolute path inside the image", program.Dir)
	}
	for _, v := range c.data {
		dir, err := inside.expand(v)
		if err != nil {
			return Program{}, err
		}
		if !strings.HasPrefix(dir, "/") || filepath.Clean(dir) == "/" {
			return Program{}, v.at.wrong("%q: want an absolute path inside the image, below /", dir)
		}
		program.Data = append(program.Data, filepath.Clean(dir))
	}
	if program.MemoryNeed, err = inside.size(c.memory); err != nil {
		return Program{}, err
	}
	if c.service {
		// Wrong values here are the user's to mend, too, and better reported now
		// than in the first trial. Any address will do to check what refers to it.
		anywhere := c.outside(p, nowhere)
		if _, err := c.ready.compile(anywhere); err != nil {
			return Program{}, err
		}
		if _, err := c.load.compile(anywhere); err != nil {
			return Program{}, err
		}
	}
	return program, nil
}

// nowhere is an address to check with what refers to one.
func nowhere(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// outside is the scope of what meets the service from outside.
func (c *custom) outside(p Params, addresses func(port int) string) scope {
	return scope{
		params:    p,
		addresses: func(port int) string { return addresses(c.portAt(p, port)) },
		names:     addressNames,
		ports:     c.ports,
	}
}

// portAt is at which port the program serves what the file has as one of its ports.
func (c *custom) portAt(p Params, port int) int {
	if first := p.portOr(0); first > 0 {
		return first + slices.Index(c.ports, port)
	}
	return port
}

// Placed passes a place to a program whose command or environment can name one.
func (c *custom) Placed(p Params, at Place) (Params, error) {
	cannot := func(format string, args ...any) error { return &Unplaceable{c.name, fmt.Sprintf(format, args...)} }
	if len(c.ports) == 0 || len(c.ports) > PlacePorts {
		return nil, cannot("its file lists %d ports, want 1 to %d", len(c.ports), PlacePorts)
	}
	if _, own := p["listen"]; at.Listen != "" && (own || !c.tells("listen")) {
		return nil, cannot("neither command nor env of its file has ${listen}")
	}
	for i, port := range c.ports {
		name := fmt.Sprintf("port:%d", port)
		if at.Port > 0 && !c.tells(name) && !(i == 0 && c.tells("port")) {
			return nil, cannot("neither command nor env of its file has ${%s}", name)
		}
	}
	return p.at(at), nil
}

// tells reports whether the program is given what a name stands for.
func (c *custom) tells(name string) bool {
	return slices.ContainsFunc(c.command, func(v value) bool { return v.refersTo(name) }) ||
		slices.ContainsFunc(c.env, func(v variable) bool { return v.refersTo(name) })
}

func (c *custom) Metrics(Params) []Metric {
	var all []Metric
	for _, m := range c.metrics {
		all = append(all, m.Metric)
	}
	return all
}

func (c *custom) Drive(ctx context.Context, t Trial) error {
	if !c.service {
		exit, err := finish(ctx, t)
		if err != nil {
			return err
		}
		return c.record(t, outcome{exit: exit})
	}
	s := c.outside(t.Params(), t.Address)
	ready, err := c.ready.compile(s)
	if err != nil {
		return err
	}
	loading, err := c.load.compile(s)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := ready.await(ctx, t); err != nil {
			return err
		}
		o, err := loading.run(ctx, t)
		if err != nil {
			return err
		}
		return c.record(t, o)
	})
}

// outputs are where a metric may be looked for.
func outputs(t Trial, o outcome) map[string][]byte {
	stdout, stderr := t.Output()
	return map[string][]byte{"stdout": stdout, "stderr": stderr, "load": bytes.TrimSpace(o.output)}
}
