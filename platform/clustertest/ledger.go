package clustertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/kernel/process"
)

// ledgerSuffix marks the ledger ID.ledger of a cluster. By the id in its name, the cluster's directory
// ID and its control groups are found. A line is the first process of a machine: its id and start
// time. The starter holds the ledger's lock.
const ledgerSuffix = ".ledger"

// groupOf is the control group that holds those of the cluster's machines.
func groupOf(layout cgroup.Layout, id string) cgroup.Group { return layout.At("/tare-cluster-" + id) }

// record enters a process that has begun. One that is not entered yet ends with the starter, too, since
// its input does.
func (c *Cluster) record(id process.Identity) error {
	pid, start := id.Strings()
	_, err := fmt.Fprintf(c.ledger, "%s %s\n", pid, start)
	return err
}

// parseLedger reads the processes of a ledger, and passes over a line that was not written whole.
func parseLedger(f *os.File) (recorded []process.Identity, err error) {
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		pid, start, _ := strings.Cut(lines.Text(), " ")
		if id, err := process.ParseIdentity(pid, start); err == nil {
			recorded = append(recorded, id)
		}
	}
	return recorded, lines.Err()
}

// Clean removes what clusters of that directory left whose starters have ended, and gives their
// names. Clusters that run are left alone.
func Clean(ctx context.Context, stateDir string) (removed []string, err error) {
	ledgers, err := filepath.Glob(filepath.Join(stateDir, "*"+ledgerSuffix))
	if err != nil || len(ledgers) == 0 {
		return nil, err
	}
	// What others could have written here is not carried out.
	if err := file.Private(stateDir); err != nil {
		return nil, err
	}
	for _, path := range ledgers {
		ledger, err := file.Lock(path)
		if locked := new(file.Locked); errors.As(err, &locked) {
			continue
		}
		if err != nil {
			return removed, err
		}
		id := strings.TrimSuffix(filepath.Base(path), ledgerSuffix)
		recorded, err := parseLedger(ledger)
		if err == nil {
			err = remove(ctx, stateDir, id, recorded)
		}
		if err != nil {
			return removed, errors.Join(fmt.Errorf("removing cluster %s: %w", id, err), ledger.Close())
		}
		if err := file.Unlock(ledger); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, removeIfEmpty(stateDir)
}

// Running names the clusters of that directory whose starters run.
func Running(stateDir string) (running []string, err error) {
	ledgers, err := filepath.Glob(filepath.Join(stateDir, "*"+ledgerSuffix))
	for _, path := range ledgers {
		ledger, err := file.Lock(path)
		if locked := new(file.Locked); errors.As(err, &locked) {
			running = append(running, strings.TrimSuffix(filepath.Base(path), ledgerSuffix))
		} else if err != nil {
			return running, err
		} else if err := ledger.Close(); err != nil {
			return running, err
		}
	}
	return running, err
}

// remove removes a cluster. With a machine's first process the kernel ends all others of the machine,
// and removes its mounts and devices.
func remove(ctx context.Context, stateDir, id string, recorded []process.Identity) error {
	for _, p := range recorded {
		if err := p.Kill(ctx); err != nil {
			return err
		}
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	group := groupOf(layout, id)
	if err := group.Kill(ctx); err != nil {
		return err
	}
	if err := group.Remove(ctx); err != nil {
		return err
	}
	dir := filepath.Join(stateDir, id)
	if mounts, err := mount.Below(dir); err != nil || len(mounts) > 0 {
		// Nothing of a cluster's is mounted here, and what else is must not be deleted.
		return errors.Join(err, fmt.Errorf("%v are mounted below %s: unmount them", mounts, dir))
	}
	return os.RemoveAll(dir)
}

func removeIfEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil // another cluster is there
	}
	return err
}
