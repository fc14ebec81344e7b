package workload

import (
	"context"
	"net/http"
	"strconv"

	"tare/image"
)

// static is S3's noise: a web server with a set of static objects in its own anonymous
// memory. It is Varnish, whose objects are laid there by requests; it has no origin
// that it could ask.
var static = &objectServer{
	name:    "static",
	summary: "Varnish holding objects in its own memory, loaded over HTTP by tare",
	port:    8080,
	own:     func(*parameters) func(objectPlan) Program { return staticProgram },
	put: func(ctx context.Context, url string, content []byte) (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
		if err == nil {
			request.Header.Set(image.StaticContent, string(content))
		}
		return request, err
	},
}

func staticProgram(plan objectPlan) Program {
	// An object comes in a header, and is made in a workspace.
	header := plan.largest() + 1<<10
	request := header + 15<<10
	workspace := 2*header + 64<<10
	kept := "1,10,1" // of requests' memory: at least, at most, for so many seconds
	args := []string{image.StaticProgram, "-F", "-n", "/data", "-j", "none", "-T", "none",
		"-a", plan.where(), "-f", image.StaticRules, "-s", "malloc", "-l", "1m"}
	for _, set := range []struct{ name, value string }{
		{"cc_command", image.StaticCompiler},
		{"http_req_hdr_len", strconv.FormatInt(header, 10)},
		{"http_req_size", strconv.FormatInt(request, 10)},
		{"workspace_client", strconv.FormatInt(workspace, 10)},
		{"workspace_backend", strconv.FormatInt(workspace, 10)},
		{"pool_req", kept}, {"pool_sess", kept}, {"pool_vbo", kept},
		// It is idle: it shall have as few threads as it works with, and nobody to
		// wake them.
		{"thread_pools", "1"}, {"thread_pool_min", "5"}, {"ping_interval", "0"},
		// A client that asks one of many comes back after seconds.
		{"timeout_idle", "3600"},
	} {
		args = append(args, "-p", set.name+"="+set.value)
	}
	return Program{
		Args: args, Ports: []int{plan.port}, Data: []string{"/data"}, Service: true,
		MemoryNeed: staticMemory(plan.objects), Needs: []string{image.StaticProgram},
	}
}

// staticMemory is the least with which the server can hold its objects: about 8 MiB of
// its own, 1 KiB for each, and the workspaces of a request while it is filled.
func staticMemory(o objects) int64 {
	return 16<<20 + o.bytes() + o.count()<<10 + 8*o.largest()
}
