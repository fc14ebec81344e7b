package clustertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// authority issues the cluster's certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte // of the certificate
}

// lifetime is long enough for a cluster that somebody keeps over the weekend.
const lifetime = 7 * 24 * time.Hour

func newAuthority() (*authority, error) {
	a := new(authority)
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "tare test cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate = template // which signs itself
	if a.pem, err = a.sign(template, a.key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.pem)
	a.certificate, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// pair is a certificate and its key, as PEM.
type pair struct{ certificate, key []byte }

// issue issues a certificate to a user of the API, by name and group, who may be a server of some
// names and addresses, too.
func (a *authority) issue(user, group string, names []string, addresses ...netip.Addr) (p pair, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: user}, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	if p.key, err = encodeKey(key); err != nil {
		return p, err
	}
	p.certificate, err = a.sign(template, key)
	return p, err
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = template.NotBefore.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// object is what becomes JSON, which is YAML, too.
type object = map[string]any

// kubeconfig is the file by which a client finds a server, trusts it and is known to it.
func (a *authority) kubeconfig(server string, user pair) ([]byte, error) {
	return json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []object{{"name": "test", "cluster": object{"server": server, "certificate-authority-data": a.pem}}},
		"users": []object{{"name": "user", "user": object{
			"client-certificate-data": user.certificate, "client-key-data": user.key,
		}}},
		"contexts": []object{{"name": "test", "context": object{"cluster": "test", "user": "user"}}},
	})
}
