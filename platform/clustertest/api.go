package clustertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tare/kernel/netns"
)

// connect makes the client by which the cluster is asked.
func (c *Cluster) connect(server string, user pair) error {
	certificate, err := tls.X509KeyPair(user.certificate, user.key)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(c.trust.certificate)
	c.server = server
	c.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{certificate}},
	}}
	return nil
}

// serve forwards the connections of the listener to the API server, which is in another network
// namespace.
func (c *Cluster) serve() {
	dial := netns.Dialer(c.control.network())
	address := fmt.Sprintf("%s:%d", controlAddress(), serverPort)
	for {
		from, err := c.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go func() {
			defer from.Close()
			to, err := dial(context.Background(), address)
			if err != nil {
				return // as a server that does not listen
			}
			defer to.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				forward(to, from)
			}()
			forward(from, to)
			<-done
		}()
	}
}

// forward copies until one end is closed, and closes the other end for writing.
func forward(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// Refused is an answer of the API that is no success.
type Refused struct {
	Status int
	Text   string
}

func (r *Refused) Error() string { return fmt.Sprintf("the API answers %d: %s", r.Status, r.Text) }

// Call sends a request to the API, such as GET of /api/v1/nodes. Body and answer are JSON; either
// may be nil. An answer that is a *[]byte receives the text. The error is a [*Refused] where the API
// refuses.
func (c *Cluster) Call(ctx context.Context, method, path string, body, answer any) error {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	switch to := answer.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = text
		return nil
	}
	return json.Unmarshal(text, answer)
}

func (c *Cluster) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, text)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return nil, &Refused{response.StatusCode, strings.TrimSpace(string(said))}
	}
	return response, nil
}

// Await watches the objects of a path, such as /api/v1/nodes, until one is as wanted. isWanted is
// asked about each object as it is, and whenever one changes. The selector chooses objects by
// their fields, such as metadata.name=node1; empty is all.
func (c *Cluster) Await(ctx context.Context, path, selector string, isWanted func(object []byte) (bool, error)) error {
	query := url.Values{"watch": {"true"}, "fieldSelector": {selector}}
	for {
		response, err := c.send(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
		if err != nil {
			return fmt.Errorf("waiting for %s %s: %w", path, selector, err)
		}
		found, err := watch(response.Body, isWanted)
		_ = response.Body.Close()
		if cause := context.Cause(ctx); cause != nil && !found {
			err = cause
		}
		if found || err != nil {
			if err != nil {
				err = fmt.Errorf("waiting for %s %s: %w", path, selector, err)
			}
			return err
		}
		// The server ends a watch after a while.
	}
}

func watch(events io.Reader, isWanted func(object []byte) (bool, error)) (found bool, err error) {
	for d := json.NewDecoder(events); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		switch err := d.Decode(&event); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case event.Type == "ERROR":
			return false, fmt.Errorf("the API ends the watch: %s", event.Object)
		}
		if found, err := isWanted(event.Object); found || err != nil {
			return found, err
		}
	}
}

// AwaitNode waits until the control plane takes a node for ready, or for not ready.
func (c *Cluster) AwaitNode(ctx context.Context, name string, isReady bool) error {
	return c.Await(ctx, "/api/v1/nodes", "metadata.name="+name, func(object []byte) (bool, error) {
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if err := json.Unmarshal(object, &node); err != nil {
			return false, err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" {
				return (condition.Status == "True") == isReady, nil
			}
		}
		return false, nil
	})
}

// awaitAccount waits for the account without which no pod is taken.
func (c *Cluster) awaitAccount(ctx context.Context) error {
	return c.Await(ctx, "/api/v1/namespaces/default/serviceaccounts", "metadata.name=default",
		func([]byte) (bool, error) { return true, nil })
}

// awaitServer waits until the API server is ready to answer.
func (c *Cluster) awaitServer(ctx context.Context) error {
	for {
		err := c.Call(ctx, http.MethodGet, "/readyz", nil, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(50 * time.Millisecond): // nothing tells when it listens
		}
	}
}
