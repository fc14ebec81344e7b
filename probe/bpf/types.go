package bpf

import (
	"sync"

	"github.com/cilium/ebpf/btf"
)

// shared is the copy of the kernel's types that all use while somebody shares it.
var shared struct {
	sync.Mutex
	holders int
	cache   *btf.Cache
}

// Share has everything that is loaded until release use one copy of the kernel's types. Without it each check
// of a host and each loading reads its own, which takes some ten milliseconds of CPU time; to keep one
// longer than that takes some ten MiB.
func Share() (release func()) {
	shared.Lock()
	defer shared.Unlock()
	if shared.holders == 0 {
		shared.cache = btf.NewCache()
	}
	shared.holders++
	return sync.OnceFunc(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.holders--; shared.holders == 0 {
			shared.cache = nil
		}
	})
}

// kernelTypes is the shared copy, or else one of the caller's own.
func kernelTypes() *btf.Cache {
	shared.Lock()
	defer shared.Unlock()
	if shared.cache != nil {
		return shared.cache
	}
	return btf.NewCache()
}
