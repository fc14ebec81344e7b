package daemon

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"tare/annex/bound"
	"tare/kernel/file"
)

// Managing finds the programs that manage memory of this host, whatever each defends: those
// that hold claims. What one left that was killed is removed. A group whose path is too long
// for a file's name is told of by the checksum that its claim is named after.
func Managing() (all []*bound.Claimed, err error) {
	const before, after = "defended-", ".lock"
	locks, err := filepath.Glob(filepath.Join(claims, before+"*"+after))
	if err != nil {
		return nil, err
	}
	for _, path := range locks {
		lock, err := file.Lock(path)
		if locked := new(file.Locked); errors.As(err, &locked) {
			group := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), before), after)
			if plain, err := url.PathUnescape(group); err == nil {
				group = plain
			}
			if group == "host" {
				group = ""
			}
			all = append(all, &bound.Claimed{Group: group, Lock: path})
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := file.Unlock(lock); err != nil {
			return nil, err
		}
	}
	return all, nil
}
