package cli

import (
	"tare/probe/causes"
	"tare/study/platforms"
)

// watchCauses begins to watch a program of this kernel.
func watchCauses(t causes.Target, o causes.Options) (platforms.Watcher, error) {
	w, err := causes.Start(t, o)
	if err != nil {
		return nil, err
	}
	return w, nil
}
