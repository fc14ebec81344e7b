package clustertest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// A client that a kubeconfig describes trusts the authority's server, and is known to it by name and group.
func TestAuthority(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issued, err := a.issue("server", "", nil, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(issued.certificate, issued.key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(a.certificate)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.VerifiedChains[0][0].Subject
		_, _ = io.WriteString(w, name.CommonName+" of "+name.Organization[0])
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()

	user, err := a.issue("system:node:node1", "system:nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.kubeconfig(server.URL, user)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct{ Cluster map[string]string }
		Users    []struct{ User map[string]string }
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	decode := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	own, err := tls.X509KeyPair(decode(config.Users[0].User["client-certificate-data"]), decode(config.Users[0].User["client-key-data"]))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(decode(config.Clusters[0].Cluster["certificate-authority-data"]))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}}
	response, err := client.Get(config.Clusters[0].Cluster["server"])
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if said, _ := io.ReadAll(response.Body); string(said) != "system:node:node1 of system:nodes" {
		t.Errorf("the server knows the client as %q", said)
	}
	// Another authority of the same name is not trusted.
	other, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.certificate.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("another authority's certificate is trusted")
	}
}
