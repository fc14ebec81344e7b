package weigh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker/go-units"

	"tare/container"
	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/procfs"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/kit"
	"tare/terminal"
	"tare/workload"
)

// CopyLoad is how a copy of a container is loaded: by a replay, by a client of the host, or
// not at all.
type CopyLoad struct {
	Port   int // 0 is the container's own first
	Replay *load.Replay
	Client []string
	// For and Beside are as [workload.Copied] has them.
	For    time.Duration
	Beside func(ctx context.Context) error
}

func (l CopyLoad) isNone() bool { return l.Replay == nil && len(l.Client) == 0 }

// Copy is a running container as a subject: launched anew under a name and on a network of its
// own. The container itself is only looked at.
type Copy struct {
	Subject  Subject
	Platform string
	Base     platform.Setting // the container's own limits
	Notes    []string         // what of it is copied, and what is not
}

// MostCopied bounds the files of a container's mounts that are copied.
const MostCopied = 1 << 30

// Uncopyable says of what cannot be copied, because Docker does not run it, what to weigh instead; nil of what
// Docker runs.
func Uncopyable(c container.Container) error {
	reason, instead := string(c.Engine)+" runs it", "weigh its program: tare weigh --rootfs DIR -- COMMAND"
	switch c.Engine {
	case container.Docker:
		return nil
	case container.Process:
		reason = "it is a process"
	case container.Cgroup:
		reason = "it is a control group of no engine that answers"
	}
	if c.Image != "" {
		instead = "weigh its image: tare weigh --image " + terminal.Shell(c.Image)
	}
	return &platform.Uncopied{Name: c.Name, Reason: reason + ", and tare copies containers of Docker alone; " + instead}
}

// CopyOf describes a copy. The error is a *[platform.Uncopied], or the user's to mend.
func CopyOf(ctx context.Context, c container.Container, l CopyLoad, host kit.Host) (Copy, error) {
	refuse := func(format string, args ...any) (Copy, error) {
		return Copy{}, &platform.Uncopied{Name: c.Name, Reason: fmt.Sprintf(format, args...)}
	}
	if err := Uncopyable(c); err != nil {
		return Copy{}, err
	}
	p, err := host.Platform("docker")
	if err != nil {
		return Copy{}, err
	}
	if err := host.Check(p); err != nil {
		return Copy{}, err
	}
	copying, ok := p.(platform.Copying)
	if !ok {
		return refuse("platform %s copies none", p.Name())
	}
	from, err := copying.Original(ctx, c.ID)
	if err != nil {
		return Copy{}, err
	}
	made := Copy{Platform: p.Name(), Base: from.Setting}
	if err := made.limit(c, host.CPUs); err != nil {
		return Copy{}, err
	}
	program := workload.Program{
		Args: from.Args, Env: from.Env, Unrecorded: from.Unrecorded, Dir: from.Dir, User: from.User,
	}
	source := workload.Source{Image: from.Image}
	has := func(target string, info fs.FileInfo) bool { return isMounted(c, target, info) }
	if err := made.mounts(c.Name, has, from.Mounts, &program, &source); err != nil {
		return Copy{}, err
	}
	for _, what := range from.Lacks {
		made.note("not copied: %s", what)
	}
	port := l.Port
	switch {
	case port == 0 && len(from.Ports) > 0:
		port = from.Ports[0]
	case port == 0 && !l.isNone():
		return Copy{}, kit.Usagef("%s names no port: say where it listens with --port", c.Name)
	}
	if port > 0 && l.isNone() && l.For == 0 {
		return Copy{}, kit.Usagef("%s serves port %d: load its copy with --replay FILE or a client after --", c.Name, port)
	}
	if port > 0 && made.Base.Network == platform.NetworkNone {
		return refuse("it has no network, so that nothing can load its copy")
	}
	made.Subject = Subject{Workload: workload.FromContainer(workload.Copied{
		Label: "copy-of-" + c.Name, Program: program, Source: source,
		Port: port, Replay: l.Replay, Client: l.Client, For: l.For, Beside: l.Beside,
	})}
	return made, nil
}

// Mark has a design say what of the container is copied. The container goes on beside its copy, as do others on a host
// in use: their load is part of what is compared.
func (m Copy) Mark(d *lab.Design) {
	notes := append(slices.Clone(m.Notes), "other programs of the host go on: their load is part of what is compared, and is not counted as a disturbance")
	d.Plan.HostInUse, d.Plan.Notes = true, append(notes, d.Plan.Notes...)
}

func (m *Copy) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// Suits refuses what cannot be measured of a copy.
func (m Copy) Suits(o Options) error {
	program, err := m.Subject.Workload.Program(nil)
	if err != nil {
		return err
	}
	networks := []string{string(o.Base.Network)}
	for _, f := range o.Vary {
		switch {
		case f.Key == "network":
			networks = append(networks, f.Values...)
		case f.Key == "storage" && len(program.Data) == 0:
			return kit.Usagef("storage: the container writes no mount whose storage could be varied")
		}
	}
	for _, n := range networks {
		if n == string(platform.NetworkHost) || n == string(platform.NetworkNone) && program.Service {
			return kit.Usagef("network=%s: a copy has a network of its own, beside the original: want %s, %s or %s",
				n, platform.NetworkBridge, platform.NetworkProxy, platform.NetworkNAT)
		}
	}
	return nil
}

// limit takes over the quota and the memory limit that are in force, whoever set them.
func (m *Copy) limit(c container.Container, cpus []int) error {
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	in, _, err := layout.Of(c.PID)
	if err != nil {
		return &container.Ended{Name: c.Name}
	}
	own, err := c.OwnGroup(in, layout).Own()
	if errors.Is(err, fs.ErrNotExist) {
		return &container.Ended{Name: c.Name}
	}
	if err != nil {
		return err
	}
	m.Base.Memory = own.Memory
	switch limit := own.Bandwidth; {
	case limit.Quota == 0:
	case limit.CPUs() > float64(len(cpus)):
		m.note("its quota is more than this host's CPUs, and left out")
	default:
		m.Base.CPUs = limit.CPUs()
		m.Base.CPUPeriod, m.Base.CPUBurst = limit.Period, limit.Burst
	}
	m.Base = m.Base.Normal()
	return nil
}

// mounts gives the copy what its original has mounted: read-only directories and files as they
// are, and a copy of directories that it writes.
func (m *Copy) mounts(
	name string,
	has func(target string, info fs.FileInfo) bool,
	all []platform.OriginalMount,
	program *workload.Program,
	source *workload.Source,
) error {
	var given []image.Given
	var room int64 = MostCopied
	for _, from := range all {
		refuse := func(format string, args ...any) error {
			return &platform.Uncopied{Name: name, Reason: "mount " + from.Target + ": " + fmt.Sprintf(format, args...)}
		}
		if from.Kind == "tmpfs" {
			m.note("%s is an empty directory instead of a tmpfs", from.Target)
			continue
		}
		if !filepath.IsAbs(from.Source) {
			return refuse("%s %s lies in no directory of this host", from.Kind, from.Name)
		}
		info, err := os.Stat(from.Source)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return refuse("%s is gone", from.Source)
		case err != nil:
			return refuse("%v", err)
		case !info.IsDir() && !info.Mode().IsRegular():
			m.note("not copied: %s is neither a directory nor a file", from.Target)
		case !has(from.Target, info):
			return refuse("%s is not what the container has there any more: start the container again", from.Source)
		case from.ReadOnly || !info.IsDir():
			shown := workload.Shown{Source: from.Source, Target: from.Target, Directory: info.IsDir()}
			program.Shown = append(program.Shown, shown)
			m.note("%s is the original's, read-only", from.Target)
		default:
			size, err := sizeOf(from.Source, room)
			if err != nil {
				return refuse("%v", err)
			}
			if room -= size; room < 0 {
				return refuse("its files and those of earlier mounts take more than %s, which tare does not copy",
					units.BytesSize(MostCopied))
			}
			given = append(given, image.Given{Source: from.Source, Target: from.Target, Was: info})
			program.Data = append(program.Data, from.Target)
			m.Base.Storage = cmp.Or(m.Base.Storage, storageOf(from.Kind))
			m.note("%s is a copy of %s as it is now", from.Target, units.BytesSize(float64(size)))
		}
	}
	if len(given) > 0 {
		source.Given = &given
	}
	return nil
}

// isMounted reports whether a container has a file or directory of the host at a path inside. Who may write above
// that on the host could have put another in its place, which the container was never given.
func isMounted(c container.Container, target string, info fs.FileInfo) bool {
	pinned, err := file.PinIn(procfs.Host.Process(c.PID).Path("root"), target)
	if err != nil {
		return false
	}
	defer pinned.Close()
	its, err := pinned.Lstat()
	return err == nil && os.SameFile(info, its)
}

func storageOf(kind string) platform.Storage {
	if kind == "volume" {
		return platform.StorageVolume
	}
	return platform.StorageBind
}

// sizeOf is how much the files below a directory hold. It stops above most. The container may change them meanwhile:
// no link is followed, and more files than an image may have are an error.
func sizeOf(dir string, most int64) (sum int64, err error) {
	top, err := file.Pin(dir)
	if err != nil {
		return 0, err
	}
	defer top.Close()
	s := sizing{most: most, entries: image.DefaultLimits.Entries}
	err = s.directory(top)
	return s.sum, err
}

// sizing adds up files until there are more than most bytes or entries.
type sizing struct {
	sum, most int64
	entries   int
}

func (s *sizing) directory(dir *file.Pinned) error {
	names, isCut, err := dir.Entries(s.entries)
	if err != nil {
		return err
	}
	if s.entries -= len(names); isCut {
		return fmt.Errorf("it has more than %d files, which tare does not copy", image.DefaultLimits.Entries)
	}
	for _, name := range names {
		if err := s.entry(dir, name); err != nil || s.sum > s.most {
			return err
		}
	}
	return nil
}

func (s *sizing) entry(in *file.Pinned, name string) error {
	one, err := in.Entry(name)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer one.Close()
	info, err := one.Lstat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return s.directory(one)
	case info.Mode().IsRegular():
		s.sum += info.Size()
	}
	return nil
}
