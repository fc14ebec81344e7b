package host

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Topology is which CPUs there are, and which of them are one core's. Lists are
// in the kernel's own format ("0-3,8").
type Topology struct {
	Online string
	// Siblings are the CPUs of a CPU's core, itself among them, by its number. A
	// machine that does not say has none.
	Siblings map[int]string
}

// ReadTopology reads it of the machine whose root directory is fsroot ("/").
func ReadTopology(fsroot string) Topology {
	root := tree(fsroot)
	t := Topology{Online: root.text("sys/devices/system/cpu/online"), Siblings: map[int]string{}}
	// A pattern without a fault has no error.
	all, _ := filepath.Glob(filepath.Join(fsroot, "sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"))
	for _, name := range all {
		number := strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(name))), "cpu")
		cpu, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		if list := root.text(filepath.Join("sys/devices/system/cpu/cpu"+number, "topology/thread_siblings_list")); list != "" {
			t.Siblings[cpu] = list
		}
	}
	return t
}

// LastLevelCaches is the size of the machine's caches of the highest level, all of them
// together, in bytes; 0 where the kernel does not say.
func LastLevelCaches(fsroot string) int64 {
	root := tree(fsroot)
	sizes, last := map[string]int64{}, 0
	all, _ := filepath.Glob(filepath.Join(fsroot, "sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"))
	for _, dir := range all {
		of := func(name string) string { return root.text(filepath.Join(strings.TrimPrefix(dir, fsroot), name)) }
		level, err := strconv.Atoi(of("level"))
		size, sizeErr := strconv.ParseInt(strings.TrimSuffix(of("size"), "K"), 10, 64)
		if err != nil || sizeErr != nil || level < last {
			continue
		}
		if level > last {
			sizes, last = map[string]int64{}, level
		}
		sizes[of("shared_cpu_list")] = size << 10
	}
	var sum int64
	for _, size := range sizes {
		sum += size
	}
	return sum
}
