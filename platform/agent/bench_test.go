package agent_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
	"tare/platform/agent"
)

// streams are the ways to an agent on this host.
var streams = map[string]func(testing.TB) (client, server net.Conn){
	"pipe": func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() },
	"unix": func(t testing.TB) (net.Conn, net.Conn) { return sockets(t) },
}

// A round trip of an empty call: SPECIFICATION promises less than 1 ms at p99 over a
// local stream.
func BenchmarkRoundTrip(b *testing.B) {
	for name, stream := range streams {
		b.Run(name, func(b *testing.B) {
			client, server := stream(b)
			c := serve(b, &agent.Server{Version: version, Platforms: of(newFake())}, client, server)
			p := c.Platform("fake")
			trip := func() time.Duration {
				asked := time.Now()
				if p.Version(b.Context()) == "" {
					b.Fatal("no answer")
				}
				return time.Since(asked)
			}
			for range 100 { // streams are open then
				trip()
			}
			b.ResetTimer()
			took := make([]time.Duration, b.N)
			for i := range took {
				took[i] = trip()
			}
			b.StopTimer()
			slices.Sort(took)
			us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
			b.ReportMetric(us(took[(len(took)-1)/2]), "us-p50")
			b.ReportMetric(us(took[(len(took)*99+99)/100-1]), "us-p99")
		})
	}
}

// A program's output, as it comes.
func BenchmarkOutput(b *testing.B) {
	needRoot(b)
	for name, stream := range streams {
		b.Run(name, func(b *testing.B) {
			f := newFake()
			piece := make([]byte, 64<<10)
			b.SetBytes(int64(len(piece)))
			done := make(chan error, 1)
			f.print = func(spec platform.Spec) {
				for range b.N {
					if _, err := spec.Stdout.Write(piece); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}
			client, server := stream(b)
			c := serve(b, &agent.Server{Version: version, Platforms: of(f), ImageDir: b.TempDir()}, client, server)
			p, img := c.Platform("fake"), small(b)
			if err := p.Prepare(b.Context(), img); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			inst, err := p.Launch(b.Context(), platform.Spec{Name: "prints", Image: img, Args: []string{"program"}, Stdout: io.Discard})
			if err != nil {
				b.Fatal(err)
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			if err := inst.Stop(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// An image's crossing: packed, sent, unpacked, verified, and kept.
func BenchmarkImage(b *testing.B) {
	needRoot(b)
	root := b.TempDir()
	const size = 32 << 20
	if err := os.WriteFile(filepath.Join(root, "large"), make([]byte, size), 0o644); err != nil {
		b.Fatal(err)
	}
	digest, err := image.WriteLayer(b.Context(), io.Discard, root)
	if err != nil {
		b.Fatal(err)
	}
	img := image.Image{Name: "large", Digest: digest, Root: root}
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		client, server := sockets(b)
		served := make(chan error, 1)
		go func() {
			served <- (&agent.Server{Version: version, Platforms: of(newFake()), ImageDir: b.TempDir()}).Serve(context.Background(), server)
		}()
		c, err := agent.Connect(b.Context(), client, version)
		if err != nil {
			b.Fatal(err)
		}
		p := c.Platform("fake")
		b.StartTimer()
		if err := p.Prepare(b.Context(), img); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		c.Close()
		<-served
		b.StartTimer()
	}
}
