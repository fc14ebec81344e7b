package density

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"tare/platform"
	"tare/study/kit"
)

// Box is what stands for the machine whose memory runs out.
type Box struct {
	Kind   platform.BoxKind
	Memory int64 // bytes; 0 is all that the host has
	// Engine is of a virtual machine of its own: "vm", "vm:tcg"; empty is none.
	Engine string
}

// leastBox is the least memory that anything can be asked about.
const leastBox = 16 << 20

// ParseBox reads what the box is: a size, such as "1g", is a cgroup of so much; "vm:1g" and
// "vm:tcg:1g" are virtual machines of their own; "host" is all of this one.
func ParseBox(text string) (Box, error) {
	if text == "host" {
		return Box{Kind: platform.BoxMachine}, nil
	}
	engine, size := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		engine, size = text[:i], text[i+1:]
		if head, _, _ := strings.Cut(engine, ":"); head != "vm" {
			return Box{}, kit.Usagef("--box %s: want a size such as 1g, vm:1g, or host", text)
		}
	}
	bytes, err := units.RAMInBytes(size)
	if err != nil || bytes < leastBox {
		return Box{}, kit.Usagef("--box %s: want a size of %s or more, such as 1g, vm:1g, or host", text, sizeText(leastBox))
	}
	if engine == "" {
		return Box{Kind: platform.BoxGroup, Memory: bytes}, nil
	}
	return Box{Kind: platform.BoxMachine, Memory: bytes, Engine: engine}, nil
}

// On is the platform in the box: that of a virtual machine's own is in it.
func (b Box) On(name string) string {
	if b.Engine == "" {
		return name
	}
	return fmt.Sprintf("%s+memory=%dm/%s", b.Engine, b.Memory>>20, name)
}
