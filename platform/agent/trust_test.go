package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/platform/agent"
)

// Whoever is known at one address is not believed at another, and nobody is called of
// whom nothing is known.
func TestAgentsAreKnownByTheirAddress(t *testing.T) {
	one, other, client := identity(t), identity(t), identity(t)
	at, complaints := listening(t, one, only(client))
	elsewhere, _ := listening(t, other, only(client))
	agents := agent.Agents{at.String(): only(other), elsewhere.String(): only(one)}
	_, err := agent.Dial(t.Context(), at, client, agents, version)
	var stranger *agent.Stranger
	if !errors.As(err, &stranger) || stranger.Address != at.String() || stranger.Fingerprint != one.Fingerprint() {
		t.Errorf("another agent's key at this address: %v", err)
	}
	<-complaints
	delete(agents, at.String())
	_, err = agent.Dial(t.Context(), at, client, agents, version)
	var unknown *agent.Unknown
	if !errors.As(err, &unknown) || unknown.Address != at.String() || !strings.Contains(err.Error(), "tare agent identity") {
		t.Errorf("an address of which nothing is known: %v", err)
	}
	select {
	case err := <-complaints:
		t.Errorf("it was called: %v", err)
	default:
	}
}

func TestPeers(t *testing.T) {
	one := identity(t).Fingerprint()
	peers, err := agent.ReadPeers(strings.NewReader("# hosts\n\n  " + one + "  node1, since May\n"))
	if err != nil || len(peers) != 1 || !peers[one] {
		t.Errorf("%v, %v", peers, err)
	}
	for _, bad := range []string{"SHA256:short", one[len("SHA256:"):], "node1 " + one, "node1:7070 " + one, one + "="} {
		if _, err := agent.ReadPeers(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAgents(t *testing.T) {
	one, two := identity(t).Fingerprint(), identity(t).Fingerprint()
	agents, err := agent.ReadAgents(strings.NewReader("# agents\n\n Node1:7070 " + one + " since May\nnode1:07070 " + two + "\n[::0:1]:1 " + one + "\n"))
	if err != nil || len(agents) != 2 || len(agents["node1:7070"]) != 2 || !agents["node1:7070"][one] || !agents["[::1]:1"][one] {
		t.Errorf("%v, %v", agents, err)
	}
	for _, bad := range []string{one, "node1 " + one, "node1:7070", "node1:7070 SHA256:short", "unix:/run/a.sock " + one, one + " node1:7070"} {
		if _, err := agent.ReadAgents(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What says whom to trust is believed only where nobody else could have written it.
func TestWhoseFilesAreBelieved(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "identity.pem")
	own, err := agent.OpenIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]func(path string) error{
		key:                          func(path string) error { _, err := agent.OpenIdentity(path); return err },
		filepath.Join(dir, "peers"):  func(path string) error { _, err := agent.OpenPeers(path); return err },
		filepath.Join(dir, "agents"): func(path string) error { _, err := agent.OpenAgents(path); return err },
	}
	texts := map[string]string{"peers": own.Fingerprint() + "\n", "agents": "node1:7070 " + own.Fingerprint() + "\n"}
	for path, opens := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			if text, ok := texts[name]; ok {
				if err := opens(path); err == nil || !strings.Contains(err.Error(), "tare agent identity") {
					t.Errorf("no file: %v", err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := opens(path); err != nil {
				t.Fatalf("one's own: %v", err)
			}
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := opens(path); err == nil || !strings.Contains(err.Error(), "chmod") {
				t.Errorf("a file that everybody may write: %v", err)
			}
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() != 0 {
				t.Skip("needs root, to give a file to somebody else")
			}
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if err := opens(path); err == nil || !strings.Contains(err.Error(), "65534") || !strings.Contains(err.Error(), "chown 0 "+path) {
				t.Errorf("a file of another user's: %v", err)
			}
		})
	}
}

func FuzzReadPeers(f *testing.F) {
	f.Add("SHA256:vVan6vA1+9qO4MEdniy66UT6kg4wXkpoYXoN0ajghiw node1\n# remark\n")
	f.Add("SHA256:\n")
	f.Fuzz(func(t *testing.T, text string) {
		peers, err := agent.ReadPeers(strings.NewReader(text))
		if err != nil {
			return
		}
		for p := range peers {
			again, err := agent.ReadPeers(strings.NewReader(p))
			if err != nil || !again[p] {
				t.Errorf("%q was read, and is refused by itself: %v", p, err)
			}
		}
	})
}

func FuzzReadAgents(f *testing.F) {
	f.Add("node1:7070 SHA256:vVan6vA1+9qO4MEdniy66UT6kg4wXkpoYXoN0ajghiw\n# remark\n")
	f.Add("[FE80::1]:01 SHA256:vVan6vA1+9qO4MEdniy66UT6kg4wXkpoYXoN0ajghiw x\n")
	f.Fuzz(func(t *testing.T, text string) {
		agents, err := agent.ReadAgents(strings.NewReader(text))
		if err != nil {
			return
		}
		for at, keys := range agents {
			for key := range keys {
				again, err := agent.ReadAgents(strings.NewReader(at + " " + key))
				if err != nil || !again[at][key] {
					t.Errorf("%q of %q was read, and is refused by itself: %v", key, at, err)
				}
			}
		}
	})
}
