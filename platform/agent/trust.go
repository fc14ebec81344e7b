package agent

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"tare/terminal"
)

// Peers are the fingerprints of whom an agent lets in, which gives them root there: they
// are to it what authorized_keys is to sshd. Whom this host calls is another matter, and
// stands in [Agents].
type Peers map[string]bool

// Agents are the fingerprints of the agents that this host calls, by address, as
// known_hosts has them: that a key is of one agent says nothing for it at another's
// address. None of them is let in by that.
type Agents map[string]Peers

// mostTrusted bounds a file of peers, or of agents.
const mostTrusted = 10_000

// ReadPeers reads a fingerprint a line, with whatever after it as a remark; empty lines
// and those that begin with # say nothing.
func ReadPeers(r io.Reader) (Peers, error) {
	peers := Peers{}
	err := eachLine(r, func(words []string) error {
		if err := checkFingerprint(words[0]); err != nil {
			return err
		}
		peers[words[0]] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return peers, nil
}

// ReadAgents reads "HOST:PORT FINGERPRINT" a line, with remarks as in a file of peers.
// An address may have several lines: one whose key is about to change.
func ReadAgents(r io.Reader) (Agents, error) {
	agents := Agents{}
	err := eachLine(r, func(words []string) error {
		at, err := ParseAddress(words[0])
		if err != nil {
			return err
		}
		if at.Network != "tcp" {
			return fmt.Errorf("%s: only agents on the network show a key: want HOST:PORT", at)
		}
		if len(words) < 2 {
			return fmt.Errorf("%s has no fingerprint after it: want what `tare agent identity` prints there", at)
		}
		if err := checkFingerprint(words[1]); err != nil {
			return err
		}
		place := at.place()
		if agents[place] == nil {
			agents[place] = Peers{}
		}
		agents[place][words[1]] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return agents, nil
}

// eachLine visits the words of the lines that say something.
func eachLine(r io.Reader, visit func(words []string) error) error {
	lines := bufio.NewScanner(r)
	said := 0
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if said++; said > mostTrusted {
			return fmt.Errorf("line %d: more than %d are named", n, mostTrusted)
		}
		if err := visit(words); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func checkFingerprint(word string) error {
	coded, ok := strings.CutPrefix(word, fingerprintKind)
	sum, err := base64.RawStdEncoding.Strict().DecodeString(coded)
	if !ok || err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%.80q is no fingerprint: want what `tare agent identity` prints on the other host", word)
	}
	return nil
}

// place is the address by which an agent on the network is known: names of hosts have no
// case, and numbers one way of being written.
func (a Address) place() string {
	host, port, err := net.SplitHostPort(a.At)
	number, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil {
		return a.At
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10))
}

// known gives the keys that are known of an address; the error is an *Unknown.
func (a Agents) known(at Address) (Peers, error) {
	keys := a[at.place()]
	if len(keys) == 0 {
		return nil, &Unknown{at.String()}
	}
	return keys, nil
}

// Unknown says that no key is known of the agent at an address.
type Unknown struct{ Address string }

func (u *Unknown) Error() string {
	return fmt.Sprintf("no key is known of the agent at %s: add the line %q to the file of agents, with what `tare agent identity` prints there", u.Address, u.Address+" SHA256:...")
}

// OpenPeers reads a file of peers.
func OpenPeers(path string) (Peers, error) {
	return openTrusted(path, ReadPeers, "no peers are named in %s: write into it what `tare agent identity` prints on the other host")
}

// OpenAgents reads a file of agents.
func OpenAgents(path string) (Agents, error) {
	return openTrusted(path, ReadAgents, "no agents are named in %s: write into it a line of HOST:PORT and what `tare agent identity` prints there")
}

func openTrusted[T any](path string, read func(io.Reader) (T, error), none string) (T, error) {
	var trusted T
	text, err := readOwn(path, 0o022, "chmod go-w "+terminal.Shell(path))
	if errors.Is(err, fs.ErrNotExist) {
		return trusted, fmt.Errorf(none, path)
	}
	if err != nil {
		return trusted, fmt.Errorf("read whom to trust: %w", err)
	}
	if trusted, err = read(strings.NewReader(string(text))); err != nil {
		return trusted, fmt.Errorf("%s: %w", path, err)
	}
	return trusted, nil
}

// longestTrusted bounds such a file in bytes.
const longestTrusted = 4 << 20

// readOwn reads a file that says who this end is, or whom it trusts. One that is not
// root's nor this user's, or that others may use as they must not, is refused before
// anything of it is believed.
func readOwn(path string, forbidden fs.FileMode, mend string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("the owner of %s is unknown", path)
	}
	if own := os.Geteuid(); owner.Uid != 0 && int(owner.Uid) != own {
		return nil, fmt.Errorf("%s belongs to user %d, who could pass for whom they are not: look at what it says, then chown %d %s", path, owner.Uid, own, terminal.Shell(path))
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return nil, fmt.Errorf("%s has mode %04o, by which others could pass for who they are not: %s", path, mode, mend)
	}
	text, err := io.ReadAll(io.LimitReader(f, longestTrusted+1))
	if err == nil && len(text) > longestTrusted {
		err = fmt.Errorf("%s is longer than %d bytes", path, longestTrusted)
	}
	return text, err
}
