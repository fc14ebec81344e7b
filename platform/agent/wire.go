package agent

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"tare/image"
	"tare/platform"
	"tare/probe"
	"tare/probe/causes"
)

// The bounds of what one end takes from the other.
const (
	longestRequest = 8 << 20  // bytes of a call's JSON: an image's description, arguments
	longestAnswer  = 64 << 20 // bytes: a reading with its stacks
)

// The names of headers.
const (
	headerVersion  = "Tare-Version"
	headerProtocol = "Tare-Protocol"
	headerTimeout  = "Tare-Timeout" // what is left of the caller's time, as a duration
)

// upgrade is the protocol to which a connection to a port switches: plain bytes.
const upgrade = "tare-bytes"

// spec is a platform.Spec as it crosses. Arguments and environment are bytes, which
// need not be text that JSON could hold.
type spec struct {
	Name           string           `json:"name"`
	Image          image.Image      `json:"image"`
	Args           [][]byte         `json:"args"`
	Env            [][]byte         `json:"env,omitempty"`
	Dir            string           `json:"dir,omitempty"`
	User           string           `json:"user,omitempty"`
	Setting        platform.Setting `json:"setting"`
	Group          string           `json:"group,omitempty"`
	Ports          []int            `json:"ports,omitempty"`
	Data           []string         `json:"data,omitempty"`
	Stdout, Stderr bool             // wanted
}

func specOf(s platform.Spec) spec {
	return spec{
		Name:    s.Name,
		Image:   imageOf(s.Image),
		Args:    bytesOf(s.Args),
		Env:     bytesOf(s.Env),
		Dir:     s.Dir,
		User:    s.User,
		Setting: s.Setting,
		Group:   s.Group,
		Ports:   s.Ports,
		Data:    s.Data,
		Stdout:  s.Stdout != nil,
		Stderr:  s.Stderr != nil,
	}
}

func (s spec) spec() platform.Spec {
	return platform.Spec{
		Name:    s.Name,
		Image:   s.Image,
		Args:    textOf(s.Args),
		Env:     textOf(s.Env),
		Dir:     s.Dir,
		User:    s.User,
		Setting: s.Setting,
		Group:   s.Group,
		Ports:   s.Ports,
		Data:    s.Data,
	}
}

// imageOf is what crosses of an image: where its parts lie is each host's own, and its
// packages are distinguished by whoever asked for it.
func imageOf(img image.Image) image.Image {
	img.Root, img.Archive, img.Reference = "", "", ""
	img.Packages, img.Warnings = nil, nil
	return img
}

func bytesOf(text []string) [][]byte {
	b := make([][]byte, len(text))
	for i, t := range text {
		b[i] = []byte(t)
	}
	return b
}

func textOf(b [][]byte) []string {
	text := make([]string, len(b))
	for i, t := range b {
		text[i] = string(t)
	}
	return text
}

// What is asked and answered, by call.
type (
	nothing struct{}

	named struct { // a platform
		Platform string `json:"platform"`
	}
	described struct {
		Name     string `json:"name"`
		Creator  bool   `json:"creator"`
		Reaching bool   `json:"reaching"`
		Storing  bool   `json:"storing"`
	}
	setting struct {
		Platform string           `json:"platform"`
		Setting  platform.Setting `json:"setting"`
	}
	storage struct {
		Platform string           `json:"platform"`
		Storage  platform.Storage `json:"storage"`
	}
	entry struct {
		Platform string         `json:"platform"`
		Entry    platform.Entry `json:"entry"`
	}
	text struct {
		Text string `json:"text"`
	}
	clockReading struct {
		UnixNanos int64 `json:"unix_ns"`
	}

	digest struct {
		Digest string `json:"digest"`
	}
	whether struct {
		Is bool `json:"is"`
	}
	attach struct {
		Digest string `json:"digest"`
		Device string `json:"device"`
	}
	imaged struct {
		Platform string      `json:"platform,omitempty"`
		Image    image.Image `json:"image"`
	}

	registration struct {
		ID       string `json:"id"`
		Platform string `json:"platform"`
		Spec     spec   `json:"spec"`
	}
	instanced struct {
		ID string `json:"id"`
	}
	signal struct {
		ID     string `json:"id"`
		Signal int    `json:"signal"`
	}
	processes struct {
		PIDs []int `json:"pids"`
	}
	ending struct {
		// Over is whether the program's end is known.
		Over  bool          `json:"over"`
		Exit  platform.Exit `json:"exit"`
		Error *wireError    `json:"error,omitempty"`
		// How much the program has printed until its end.
		Stdout int64 `json:"stdout_bytes"`
		Stderr int64 `json:"stderr_bytes"`
	}
	watching struct {
		ID      string         `json:"id"`
		Options causes.Options `json:"options"`
	}
	watched struct {
		ID    string `json:"id"`
		Watch int    `json:"watch"`
	}
)

// wireError is an error as it crosses: its text, and what of its types and wrapped
// errors a caller may decide on.
type wireError struct {
	Text        string                `json:"text"`
	Missing     *platform.Missing     `json:"missing,omitempty"`
	Unsupported *platform.Unsupported `json:"unsupported,omitempty"`
	NoProbe     *probe.Missing        `json:"no_probe,omitempty"`
	BadGroup    *platform.BadGroup    `json:"bad_group,omitempty"`
	Endangered  *platform.Endangered  `json:"endangered,omitempty"`
	Refused     *image.Refused        `json:"refused,omitempty"`
	NoImage     *image.Missing        `json:"no_image,omitempty"`
	Is          []string              `json:"is,omitempty"`
}

// sentinels are the errors without a content that keep their identity.
var sentinels = map[string]error{
	"gone":      platform.ErrGone,
	"cancelled": context.Canceled,
	"deadline":  context.DeadlineExceeded,
	"absent":    fs.ErrNotExist,
	"exists":    fs.ErrExist,
	"forbidden": fs.ErrPermission,
	"full":      syscall.ENOSPC,
}

func encodeError(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Text: err.Error()}
	errors.As(err, &w.Missing)
	errors.As(err, &w.Unsupported)
	errors.As(err, &w.NoProbe)
	errors.As(err, &w.BadGroup)
	errors.As(err, &w.Endangered)
	errors.As(err, &w.Refused)
	errors.As(err, &w.NoImage)
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			w.Is = append(w.Is, name)
		}
	}
	return w
}

// decode gives the error that crossed, with the types that it had.
func (w *wireError) decode() error {
	if w == nil {
		return nil
	}
	var is []error
	if w.Missing != nil {
		is = append(is, w.Missing)
	}
	if w.Unsupported != nil {
		is = append(is, w.Unsupported)
	}
	if w.NoProbe != nil {
		is = append(is, w.NoProbe)
	}
	if w.BadGroup != nil {
		is = append(is, w.BadGroup)
	}
	if w.Endangered != nil {
		is = append(is, w.Endangered)
	}
	if w.Refused != nil {
		is = append(is, w.Refused)
	}
	if w.NoImage != nil {
		is = append(is, w.NoImage)
	}
	for _, name := range w.Is {
		if sentinel, ok := sentinels[name]; ok {
			is = append(is, sentinel)
		}
	}
	if len(is) == 1 && is[0].Error() == w.Text {
		return is[0]
	}
	return &remoteError{w.Text, is}
}

// remoteError is an error of the agent's.
type remoteError struct {
	text string
	is   []error
}

func (r *remoteError) Error() string   { return r.text }
func (r *remoteError) Unwrap() []error { return r.is }

// timeLeft writes what is left of a caller's time; empty where it has no end.
func timeLeft(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	return max(0, time.Until(deadline)).String()
}
