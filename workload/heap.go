package workload

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"tare/image"
)

// heap is noise that a collector goes through: a web server that holds its objects on
// Java's heap, in pieces of 1 KiB, and makes garbage with every request.
var heap = &objectServer{
	name:    "heap",
	summary: "web server holding objects on Java's heap, with a collector, loaded over HTTP by tare",
	port:    8090,
	own:     heapProgram,
	put: func(ctx context.Context, url string, content []byte) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(content))
	},
}

var heapCollectors = map[string]string{"g1": "UseG1GC", "parallel": "UseParallelGC", "serial": "UseSerialGC"}

func heapProgram(from *parameters) func(objectPlan) Program {
	collector := from.word("collector", "g1", "g1, parallel or serial", "g1", "parallel", "serial")
	garbage := from.whole("garbage", 1024, 0, 1<<16, "KiB that a request allocates besides its answer, RANGE")
	spare := from.whole("spare", 50, 25, 400, "percent of heap beyond the objects, RANGE, and 16 MiB at least")
	pages := from.word("pages", "small", "small, or huge: the heap asks the kernel for transparent huge pages", "small", "huge")
	return func(plan objectPlan) Program {
		old, young := heapSizes(plan.objects, garbage, spare)
		megabytes := func(option string, bytes int64) string { return option + strconv.FormatInt(bytes>>20, 10) + "m" }
		args := []string{image.HeapJava, megabytes("-Xms", old+young), megabytes("-Xmx", old+young), megabytes("-Xmn", young),
			"-XX:+" + heapCollectors[collector]}
		if pages == "huge" {
			args = append(args, "-XX:+UseTransparentHugePages")
		}
		return Program{
			Args: append(args, "@"+image.HeapArguments,
				plan.listen, strconv.Itoa(plan.port), strconv.FormatInt(garbage, 10)),
			Ports:      []int{plan.port},
			Service:    true,
			MemoryNeed: old + young + heapMachine,
			Needs:      []string{image.HeapJava},
		}
	}
}

// heapMachine is what Java takes beside its heap: its own code's data, classes,
// threads' stacks, and a collector's tables.
const heapMachine = 64 << 20

// heapSizes are those of what lives long and of what has just been allocated, whole
// MiB. What an object takes beside its bytes is a fortieth: a piece has a header and is
// pointed to.
func heapSizes(o objects, garbage, spare int64) (old, young int64) {
	live := o.bytes() + o.bytes()/40
	more := max(16<<20, live*spare/100)
	// What requests under way have allocated has to fit there, too.
	young = max(more/2, 2*(garbage<<10+2*o.largest()))
	old = live + more/2
	const mib = 1 << 20
	return (old + mib - 1) / mib * mib, (young + mib - 1) / mib * mib
}
