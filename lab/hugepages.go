package lab

import (
	"fmt"

	"tare/kernel/hugepages"
	"tare/platform"
)

// What the ledger has of transparent huge pages.
const (
	hugePagesKind  = "transparent huge pages"
	hugePagesFound = "found"
)

// hugePages is what sets them. A [hugepages.Directory] is one.
type hugePages interface {
	Set() (string, error)
	InForce() (string, error)
	Write(word string) error
}

// HugePages sets when the kernel makes transparent huge pages (always, madvise, never),
// and enters in the ledger what was set before. It reaches every program on the host.
func HugePages(ledger platform.Ledger, to string) (restore func() error, err error) {
	return setHugePages(hugepages.Directory(""), ledger, to)
}

func setHugePages(host hugePages, ledger platform.Ledger, to string) (restore func() error, err error) {
	found, err := host.Set()
	if err != nil {
		return nil, err
	}
	restore = func() error { return nil }
	if found != to {
		done, err := addHostEntry(ledger, hugePagesKind, to, map[string]string{hugePagesFound: found})
		if err != nil {
			return nil, err
		}
		restore = func() error {
			if err := restoreHugePages(host, found, to); err != nil {
				return &Unrestored{fmt.Errorf("%w; `tare clean` tries again", err)}
			}
			done()
			return nil
		}
		if err := host.Write(to); err != nil {
			return nil, also(err, restore())
		}
	}
	have, err := host.InForce()
	if err == nil && have != to {
		err = fmt.Errorf("transparent huge pages are set to %s, and the kernel has %s in force", to, have)
	}
	if err != nil {
		return nil, also(err, restore())
	}
	return restore, nil
}

// restoreHugePages sets what was found, where the setting is still ours: one that somebody
// else has made since is left.
func restoreHugePages(host hugePages, found, ours string) error {
	if have, err := host.Set(); err != nil || have != ours {
		return err
	}
	return host.Write(found)
}
