package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"tare/kernel/process"
	"tare/kernel/procfs"
)

// Identify gives the identities of processes that are to be followed, the keys of followed. Those that have ended are
// taken out of it.
func Identify[ID int32 | uint32](followed map[ID]int32) (all []process.Identity, err error) {
	for pid := range followed {
		id, err := process.Identify(int(pid))
		switch {
		case procfs.Gone(err):
			delete(followed, pid)
		case err != nil:
			return nil, err
		default:
			all = append(all, id)
		}
	}
	return all, nil
}

// ForgetEnded takes those that have ended since out of the programs' map. From when a program sees the ends of
// processes, it does so itself. Those that ended before would be followed for ever, and with them whoever has their
// ids next.
func ForgetEnded(followed *ebpf.Map, all []process.Identity) error {
	for _, id := range all {
		if now, err := process.Identify(id.PID); err == nil && now == id {
			continue
		}
		if err := followed.Delete(int32(id.PID)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget process %d: %w", id.PID, err)
		}
	}
	return nil
}
