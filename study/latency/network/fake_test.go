package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/load"
	"tare/platform"
	"tare/workload"
)

// fakePlatform stands where nothing is launched.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called
	refuses           platform.Network
}

func (p *fakePlatform) Name() string { return engine }

func (p *fakePlatform) Supports(s platform.Setting) error {
	if p.refuses != "" && s.Network == p.refuses {
		return &platform.Unsupported{Platform: engine, Key: "network=" + string(s.Network), Reason: "a test's"}
	}
	return nil
}

// pages is a service of the test's: busybox's httpd, whose one page says who asks.
type pages struct {
	workload.Workload // nil likewise

	mu       sync.Mutex
	askers   map[string]bool // addresses that the service saw
	at       []string        // addresses that it was asked at
	loaded   []string        // sizes, in their order
	answered func()          // called after each load, while the service runs
}

const pagesPort = 18099

func (*pages) Name() string            { return "pages" }
func (*pages) Source() workload.Source { return workload.Source{Recipe: "pages"} }

func (*pages) Params() []workload.Param {
	return []workload.Param{{Name: "call", Default: "ping"}, {Name: "size", Default: "1024"}, {Name: "connection", Default: "kept"},
		{Name: "duration", Default: "1s"}, {Name: "warmup", Default: "0s"}, {Name: "count", Default: "0"}, {Name: "server", Default: "python"}, {Name: "client", Default: "python"}}
}

func (*pages) Program(p workload.Params) (workload.Program, error) {
	if p["size"] == "13" {
		return workload.Program{}, errors.New("size=13: want another")
	}
	script := "mkdir -p /tmp/www/cgi-bin && cd /tmp/www && " +
		`printf '#!/bin/sh\necho "Content-Type: text/plain"\necho\necho "$REMOTE_ADDR"\n' >cgi-bin/peer && chmod 755 cgi-bin/peer && ` +
		"exec httpd -f -p " + strconv.Itoa(pagesPort)
	return workload.Program{Args: []string{"sh", "-c", script}, Ports: []int{pagesPort}, Service: true}, nil
}

func (*pages) Offered(workload.Params) (workload.Offered, error) {
	return workload.Offered{Connections: 1}, nil
}

// ask asks once, over a connection of its own.
func ask(ctx context.Context, t workload.Trial) (peer string, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if d, ok := t.(workload.Dialing); ok {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return d.Dial(ctx, address) }
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Address(pagesPort)+"/cgi-bin/peer", nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK && err == nil {
		err = fmt.Errorf("status %s", answer.Status)
	}
	return strings.TrimPrefix(strings.Trim(strings.TrimSpace(string(body)), "[]"), "::ffff:"), err
}

func (*pages) Ready(ctx context.Context, t workload.Trial) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for wait := time.Millisecond; ; wait *= 2 {
		_, err := ask(ctx, t)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(wait, 100*time.Millisecond)): // between attempts: nothing announces a port that is listened to
		}
	}
}

// asked is how many requests a load of the test's has.
const asked = 5

func (p *pages) Load(ctx context.Context, t workload.Trial, _ uint64) (load.Result, error) {
	r := load.Result{Corrected: load.NewHistogram(), Requests: asked}
	for range asked {
		began := time.Now()
		peer, err := ask(ctx, t)
		if err != nil {
			return r, err
		}
		_ = r.Corrected.RecordValue(max(1, time.Since(began).Microseconds()))
		p.mu.Lock()
		p.askers[peer] = true
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, t.Address(pagesPort))
	p.loaded = append(p.loaded, t.Params()["size"])
	if p.answered != nil {
		p.answered()
	}
	return r, nil
}
