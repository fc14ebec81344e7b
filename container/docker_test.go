package container

import (
	"encoding/json"
	"testing"

	"github.com/moby/moby/api/types/container"
)

// FuzzKept: whatever an engine says of a container, nothing in it is missed where it is not said.
func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"LogPath":"/var/lib/x.log","Config":{"Healthcheck":{"Test":["CMD","true"],"Interval":0}},"HostConfig":{"NanoCpus":1,"LogConfig":{"Type":"json-file"}},` +
		`"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"172.17.0.2"},"none":null}}}`))
	f.Add([]byte(`{"Config":{"Healthcheck":{"Test":[]}},"NetworkSettings":{"Networks":{"a":{"IPAddress":""}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c container.InspectResponse
		if json.Unmarshal(text, &c) != nil {
			return
		}
		if k := keptOf(&c); k.Log != c.LogPath {
			t.Errorf("%q is read as %+v", text, k)
		}
	})
}
