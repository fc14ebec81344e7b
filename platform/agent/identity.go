package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Identity is the key pair by which one end of a network's stream shows who it is. The
// other end knows it by its fingerprint ([Peers], [Agents]), as ssh's ends do: there is no
// authority to trust, and none to lose.
type Identity struct {
	certificate tls.Certificate
	fingerprint string
}

// Fingerprint names the key: "SHA256:" and the hash of its public half, as ssh writes
// hashes.
func (i *Identity) Fingerprint() string { return i.fingerprint }

const keyBlock = "PRIVATE KEY"

// OpenIdentity reads the identity in a file, and makes it where there is none.
func OpenIdentity(path string) (*Identity, error) {
	text, err := readOwn(path, 0o077, "chmod 600 "+path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeIdentity(path); err != nil {
			return nil, fmt.Errorf("make an identity: %w", err)
		}
		text, err = readOwn(path, 0o077, "chmod 600 "+path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	identity, err := parseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("identity %s: %w: remove the file, and a new one is made", path, err)
	}
	return identity, nil
}

// makeIdentity draws a key and keeps it, wholly or not at all. Another process that
// makes one at the same time is not overwritten.
func makeIdentity(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func parseIdentity(text []byte) (*Identity, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("it holds no private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("its key is a %T, not of Ed25519", parsed)
	}
	// TLS wants a certificate about the key; nothing in it but the key is looked at.
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tare agent"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, fingerprintOf(leaf)}, nil
}

func fingerprintOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return fingerprintKind + base64.RawStdEncoding.EncodeToString(sum[:])
}

const fingerprintKind = "SHA256:"

// Stranger says that the other end is none of those whom this end expects.
type Stranger struct {
	Fingerprint string
	Address     string // of the agent that was called; empty where this end was
}

func (s *Stranger) Error() string {
	if s.Address != "" {
		return fmt.Sprintf("%s shows the key %s, which is not what is known of it: another answers there in its place, or it has a new key: ask `tare agent identity` there, and change its line in the file of agents only if that prints the same",
			s.Address, s.Fingerprint)
	}
	return "the other end is " + s.Fingerprint + ", which is none of the peers: if it should be, add that line to their file"
}

// Refused says that the agent that was called does not let this end in.
type Refused struct {
	Own   string // this end's fingerprint
	Alert error  // what TLS says of it
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the agent does not let this host in (%v): add %s to its peers", r.Alert, r.Own)
}

func (r *Refused) Unwrap() error { return r.Alert }

// nextProtocol keeps TLS clients of other programs out, and says so.
const nextProtocol = "tare-agent/1"

func (i *Identity) config(expected Peers, address string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{i.certificate},
		NextProtos:   []string{nextProtocol},
		ClientAuth:   tls.RequireAnyClientCert,
		// No authority has signed: VerifyConnection, which is always called, compares the key.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the other end shows no certificate")
			}
			if state.NegotiatedProtocol != nextProtocol {
				return errors.New("the other end is no tare")
			}
			if shown := fingerprintOf(state.PeerCertificates[0]); !expected[shown] {
				return &Stranger{shown, address}
			}
			return nil
		},
	}
}

// Admit shakes hands with whoever has connected, as the serving end. Whoever is none of
// the peers is refused before a byte of what it says is looked at; the error is a
// *Stranger. Where there is an error the connection is closed.
func (i *Identity) Admit(ctx context.Context, conn net.Conn, peers Peers) (net.Conn, error) {
	return shake(ctx, tls.Server(conn, i.config(peers, "")))
}

// Approach shakes hands as the calling end, with the agent that was called at an
// address. One whose key is not known to be of that address, though it may be of
// another, is refused: the error is a *Stranger, or an *Unknown where no key is. Where
// there is an error the connection is closed.
func (i *Identity) Approach(ctx context.Context, conn net.Conn, at Address, agents Agents) (net.Conn, error) {
	known, err := agents.known(at)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	secured, err := shake(ctx, tls.Client(conn, i.config(known, at.String())))
	if err != nil {
		return nil, err
	}
	return &approached{Conn: secured, own: i.fingerprint}, nil
}

func shake(ctx context.Context, conn *tls.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeBound)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("shaking hands by TLS: %w", err)
	}
	return conn, nil
}

// approached is a calling end. By TLS 1.3 it learns only from its first reading that it
// was refused.
type approached struct {
	net.Conn
	own string

	mu    sync.Mutex
	alert error
}

func (a *approached) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if alert := tls.AlertError(0); errors.As(err, &alert) || isRemoteAlert(err) {
		a.mu.Lock()
		a.alert = err
		a.mu.Unlock()
	}
	return n, err
}

// Write reports a refusal, too: what is written after it may fail before anything is read.
func (a *approached) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	if err != nil && a.refused() == nil {
		// The alert that came before the end lies unread, or is being read.
		_ = a.Conn.SetReadDeadline(time.Now().Add(alertBound))
		_, _ = a.Read(make([]byte, 1))
	}
	return n, err
}

// alertBound bounds the wait for what a connection that has failed still has.
const alertBound = time.Second

// isRemoteAlert: what TLS reports of the other end's alerts is a net.OpError.
func isRemoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func (a *approached) refused() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alert == nil {
		return nil
	}
	return &Refused{Own: a.own, Alert: a.alert}
}
