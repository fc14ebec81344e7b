package platform

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// mark tells this process from every other, of any boot: process ids are used again.
var mark = sync.OnceValue(func() string { return fmt.Sprintf("%012x", rand.Uint64()>>16) })

var made atomic.Int64

// Unique gives a name that nothing on the host has had, nor will have. What a dead run has
// left keeps its name until it is removed: a live thing of the same name would go with it.
func Unique(prefix string) string { return fmt.Sprintf("%s-%s-%d", prefix, mark(), made.Add(1)) }
