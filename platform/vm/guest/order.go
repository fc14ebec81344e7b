package guest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// Order tells a machine what it is to be. It travels on the kernel's command line.
type Order struct {
	// Channel is what the agent answers on: "virtio:NAME", the virtio-serial port of
	// that name.
	Channel string `json:"channel,omitempty"`
	// Address and Gateway of the one network interface; none where the address is
	// not valid. MAC tells it from others; empty is the only one there is.
	Address  netip.Prefix `json:"address,omitzero"`
	Gateway  netip.Addr   `json:"gateway,omitzero"`
	MAC      string       `json:"mac,omitempty"`
	Hostname string       `json:"hostname,omitempty"`
	// Version is that of the host's tare, whose executable the agent is.
	Version string `json:"version,omitempty"`
	// Scratch is the device ([Device]) of the scratch disk; empty keeps what programs
	// write in the machine's memory.
	Scratch string `json:"scratch,omitempty"`
	// Run is a program to run instead of the agent, its output on the console, as
	// tests do; the machine ends with it.
	Run *Run `json:"run,omitempty"`
}

// Run is a program on a disk.
type Run struct {
	Device string   `json:"device"` // as [Device] writes it; mounted read-only at [RunDirectory]
	Args   []string `json:"args"`
	Dir    string   `json:"dir,omitempty"`
	Env    []string `json:"env,omitempty"`
}

// RunDirectory is where the disk of a [Run] is mounted.
const RunDirectory = "/run/tare/program"

// virtioChannel begins the name of a channel.
const virtioChannel = "virtio:"

// argument is the word of the kernel's command line that carries the order.
const argument = "tare.order="

// maxArgument is the most that an order may take of the command line, of which x86
// reads 2048 bytes (COMMAND_LINE_SIZE).
const maxArgument = 1536

// Argument is the order as a word for the kernel's command line. The error is that of
// an order which makes no sense or is too long.
func (o Order) Argument() (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	word := argument + base64.RawURLEncoding.EncodeToString(text)
	if len(word) > maxArgument {
		return "", fmt.Errorf("a machine's order of %d bytes does not fit a kernel's command line: %d are the most", len(word), maxArgument)
	}
	return word, nil
}

// ErrNoOrder says that a command line holds no order.
var ErrNoOrder = errors.New("the kernel's command line holds no order of tare's")

// ParseOrder finds the order on a kernel's command line.
func ParseOrder(cmdline []byte) (Order, error) {
	var found string
	for word := range bytes.FieldsSeq(cmdline) {
		if rest, ok := bytes.CutPrefix(word, []byte(argument)); ok {
			if found != "" {
				return Order{}, errors.New("the kernel's command line holds two orders of tare's")
			}
			found = string(rest)
		}
	}
	if found == "" {
		return Order{}, ErrNoOrder
	}
	text, err := base64.RawURLEncoding.DecodeString(found)
	if err != nil {
		return Order{}, fmt.Errorf("the machine's order is torn: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var o Order
	if err := decoder.Decode(&o); err != nil {
		return Order{}, fmt.Errorf("the machine's order: %w", err)
	}
	if decoder.More() {
		return Order{}, errors.New("the machine's order goes on after its end")
	}
	return o, o.check()
}

var (
	hostname = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	portName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

func (o Order) check() error {
	if err := o.checkChannel(); err != nil {
		return err
	}
	switch {
	case o.Hostname != "" && !hostname.MatchString(o.Hostname):
		return fmt.Errorf("the machine's host name %q is none: lower-case letters, digits and '-', 63 at most", o.Hostname)
	case o.Gateway.IsValid() && !o.Address.IsValid():
		return errors.New("the machine has a gateway and no address")
	case o.Gateway.IsValid() && !o.Address.Contains(o.Gateway):
		return fmt.Errorf("the machine's gateway %s is not in its network %s", o.Gateway, o.Address)
	}
	if o.MAC != "" {
		if _, err := net.ParseMAC(o.MAC); err != nil {
			return fmt.Errorf("the machine's MAC: %w", err)
		}
	}
	if o.Scratch != "" {
		if _, err := parseDevice(o.Scratch); err != nil {
			return fmt.Errorf("the machine's scratch disk: %w", err)
		}
	}
	if o.Run != nil {
		if len(o.Run.Args) == 0 {
			return errors.New("the machine is to run a program, and none is named")
		}
		if _, err := parseDevice(o.Run.Device); err != nil {
			return fmt.Errorf("the disk of the program to run: %w", err)
		}
	}
	return nil
}

func (o Order) checkChannel() error {
	if o.Channel == "" && o.Run != nil {
		return nil
	}
	if name, ok := strings.CutPrefix(o.Channel, virtioChannel); !ok || !portName.MatchString(name) {
		return fmt.Errorf("the machine's channel %q is not virtio:NAME", o.Channel)
	}
	return nil
}
