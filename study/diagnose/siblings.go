package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/census"
	"tare/container"
	"tare/kernel/procfs"
	"tare/probe/contents"
	"tare/probe/pagetable"
	"tare/terminal"
)

// The bounds of comparing the memory of containers of one image.
const (
	// mostSiblings is how many containers of an image are compared.
	mostSiblings = 4
	// mostTables bounds the page tables that are read, in bytes: an entry is 8 of them.
	mostTables = 4 << 20
	// comparing bounds the time. On a host without idle CPU time the work takes a second.
	comparing = 3 * time.Second
	// sampledPages is about how many pages of each container are read.
	sampledPages = 500
	// leastTwice is the part of the host's memory below which duplicates are not worth a line.
	leastTwice = 0.001
)

// Twice is what the containers of one image hold more than once.
type Twice struct {
	Image    string
	Siblings int      // on this host, among those that are diagnosed
	Compared []string // of them
	// Anonymous is the part of their anonymous memory, Candidates, that merging equal pages would
	// free; Least is the lower bound of its interval.
	Anonymous, Least, Candidates float64 // bytes
	Read                         uint64  // pages
	// Tables are their page tables, and SpareTables those that are wholly equal, less one of each.
	Tables, SpareTables float64 // bytes
}

// duplicated finds memory that containers of one image each hold for themselves: anonymous pages
// with equal contents, and page tables that are wholly equal. Of more containers than were
// compared, the others are taken to be like these.
func duplicated(h *Host, f *Facts) []Finding {
	t := f.Twice
	if t == nil || h.Memory <= 0 || len(t.Compared) < 2 {
		return nil
	}
	whole := float64(t.Siblings-1) / float64(len(t.Compared)-1)
	if whole*(t.Least+t.SpareTables) < leastTwice*float64(h.Memory) {
		return nil
	}
	one := finding(f.Container, Duplicated, Cost{Bytes: int64(whole * (t.Anonymous + t.SpareTables))})
	one.Based = Estimated
	one.Level = levelOf(float64(one.Cost.Bytes) / float64(h.Memory))
	one.Says = fmt.Sprintf("and %d more of image %s hold the same memory", t.Siblings-1, t.Image)
	one.Evidence = []Fact{
		{"containers compared", fmt.Sprintf("%d of %d: %s", len(t.Compared), t.Siblings, strings.Join(t.Compared, ", ")), "names of the image"},
		{"anonymous memory of one mapping", bytes(int64(t.Candidates)), "page tables"},
		{"of it equal", fmt.Sprintf("%s, at least %s", bytes(int64(t.Anonymous)), bytes(int64(t.Least))),
			fmt.Sprintf("hashes of %d pages, 95 %% interval", t.Read)},
		{"page tables", bytes(int64(t.Tables)), "page tables"},
		{"of them wholly equal", bytes(int64(t.SpareTables)), "page tables"},
	}
	one.Set = []Remedy{
		{Says: "merging of equal pages: the program calls prctl(PR_SET_MEMORY_MERGE, 1) (Linux 6.4)", Command: "echo 1 > /sys/kernel/mm/ksm/run"},
		{Says: "or fewer containers, with several workers each that are forked after the program has loaded its data"},
	}
	return []Finding{one}
}

// imageOf is what containers of one image have in common; empty where it is unknown.
func imageOf(c container.Container) string { return cmp.Or(c.ImageID, c.Image) }

// compareSiblings compares the memory of containers of one image, those that use most first, and
// leaves what it found with the first of each. The notes say what was not compared.
func compareSiblings(ctx context.Context, all []*Facts, memory int64) (notes []string) {
	images := map[string][]*Facts{}
	for _, f := range all {
		if image := imageOf(f.Container); image != "" {
			images[image] = append(images[image], f)
		}
	}
	held := map[string]int64{} // by image: all that could be saved
	space := map[*Facts]addressSpaces{}
	var largest []string
	for image, of := range images {
		if len(of) < 2 {
			continue
		}
		for _, f := range of {
			space[f] = addressSpacesOf(f.Container)
			held[image] += space[f].anonymous + space[f].tables
		}
		if float64(held[image]) >= leastTwice*float64(memory) {
			largest = append(largest, image)
		}
	}
	slices.SortFunc(largest, func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	room := int64(mostTables)
	var members []*Facts
	var processes []pagetable.Process
	for _, image := range largest {
		var chosen int
		for _, f := range images[image] {
			of := space[f]
			if chosen == mostSiblings || of.tables > room || len(of.pids) == 0 {
				continue
			}
			room -= of.tables
			for _, pid := range of.pids {
				processes = append(processes, pagetable.Process{PID: pid, Group: len(members)})
			}
			members = append(members, f)
			chosen++
		}
		if chosen < 2 {
			of := images[image]
			notes = append(notes, fmt.Sprintf("the memory of image %s was not compared, its page tables are too large: tare pages %s",
				nameOfImage(of[0].Container),
				terminal.Shell(of[0].Container.Argument(), of[1].Container.Argument())))
		}
	}
	if len(members) < 2 {
		return notes
	}
	ctx, cancel := context.WithTimeout(ctx, comparing)
	defer cancel()
	err := compare(ctx, members, processes, images)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		notes = append(notes, fmt.Sprintf("the memory of containers of one image was not compared within %s: use tare pages --all --contents", comparing))
	case err != nil && ctx.Err() == nil:
		notes = append(notes, "the memory of containers of one image was not compared: "+err.Error())
	}
	return notes
}

// addressSpaces are a container's processes, and their memory in bytes.
type addressSpaces struct {
	pids              []int
	tables, anonymous int64
}

func addressSpacesOf(c container.Container) (of addressSpaces) {
	all, _ := c.Processes() // one that cannot be listed has none
	for _, pid := range all {
		p := procfs.Host.Process(pid)
		if status, err := p.Status(); err == nil && pid != os.Getpid() && !p.Locked() {
			of.pids = append(of.pids, pid)
			of.tables += int64(status.PageTables)
			of.anonymous += int64(status.Anonymous)
		}
	}
	return of
}

func compare(
	ctx context.Context, members []*Facts, processes []pagetable.Process, images map[string][]*Facts,
) (err error) {
	taker, _, err := pagetable.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, taker.Close()) }()
	found, err := taker.Take(ctx, processes, true)
	if err != nil {
		return err
	}
	pages := contents.NewPages()
	defer pages.Close()
	named := make([]census.Member, len(members))
	for i, f := range members {
		named[i] = census.Member{Name: f.Container.Name, Image: imageOf(f.Container)}
	}
	machine, err := census.Save(ctx, found, named, census.SavingOptions{
		Contents: pages.Read, Sample: sampledPages, Seed: uint64(found.Taken.UnixNano()),
	})
	if err != nil {
		return err
	}
	for _, image := range machine.Images {
		of := images[image.Image]
		twice := &Twice{
			Image: nameOfImage(of[0].Container), Siblings: len(of), Compared: image.Names,
			Tables: float64(image.Tables.Bytes()), SpareTables: float64(image.Tables.SpareAcrossBytes()),
		}
		if c := image.Contents; c != nil && c.Share != nil {
			twice.Read, twice.Candidates = c.Read, float64(c.Candidates)*pagetable.PageSize
			twice.Anonymous = c.Share.Value * twice.Candidates
			if c.Share.Low != nil {
				twice.Least = *c.Share.Low * twice.Candidates
			}
		}
		of[0].Twice = twice
	}
	return pages.Err()
}

// nameOfImage is the name under which people know it.
func nameOfImage(c container.Container) string {
	return cmp.Or(c.Image, strings.TrimPrefix(c.ImageID, "sha256:"))
}
