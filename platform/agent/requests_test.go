package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/image"
	"tare/platform"
	"tare/probe"
)

// inert is a platform that refuses whatever is asked of it.
type inert struct{}

var errInert = errors.New("inert")

func (inert) Name() string                                 { return "inert" }
func (inert) Version(context.Context) string               { return "" }
func (inert) Check(context.Context) error                  { return errInert }
func (inert) Supports(platform.Setting) error              { return errInert }
func (inert) Prepare(context.Context, image.Image) error   { return errInert }
func (inert) Release(context.Context) error                { return errInert }
func (inert) Remove(context.Context, platform.Entry) error { return errInert }
func (inert) Launch(context.Context, platform.Spec) (platform.Instance, error) {
	return nil, errInert
}

func visitor(t testing.TB) http.Handler {
	s := &Server{Version: "1", ImageDir: t.TempDir(), Platforms: func(name string) (platform.Platform, error) {
		if name != "inert" {
			return nil, fmt.Errorf("no platform %q", name)
		}
		return inert{}, nil
	}}
	v := &visit{server: s, instances: map[string]*resident{}, prepared: map[string]platform.Platform{}}
	return v.handler()
}

func ask(handler http.Handler, method, path string, headers map[string]string, body []byte) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "http://agent/v1/x", bytes.NewReader(body))
	request.URL.Path, request.URL.RawQuery, _ = strings.Cut(path, "?")
	for key, value := range headers {
		request.Header.Set(key, value)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

var equal = map[string]string{headerVersion: "1", headerProtocol: strconv.Itoa(Protocol)}

// Nothing but a greeting is answered before versions were found equal.
func TestHandsAreShakenFirst(t *testing.T) {
	handler := visitor(t)
	for _, headers := range []map[string]string{nil, {headerVersion: "2", headerProtocol: strconv.Itoa(Protocol)}, {headerVersion: "1", headerProtocol: "0"}} {
		var hello Hello
		greeting := ask(handler, "POST", "/v1/hello", headers, []byte("{}"))
		if err := json.Unmarshal(greeting.Body.Bytes(), &hello); err != nil || hello.Version != "1" || hello.Protocol != Protocol {
			t.Errorf("%v: the greeting is %+v, %v", headers, hello, err)
		}
		for _, path := range []string{"/v1/clock", "/v1/describe", "/v1/power-off"} {
			if got := ask(handler, "POST", path, headers, []byte("{}")); got.Code != statusFailed {
				t.Errorf("%v: %s is answered by %d", headers, path, got.Code)
			}
		}
		if got := ask(handler, "GET", "/v1/dial?port=1", headers, nil); got.Code != statusFailed {
			t.Errorf("%v: a port is reached: %d", headers, got.Code)
		}
	}
	ask(handler, "POST", "/v1/hello", equal, []byte("{}"))
	if got := ask(handler, "POST", "/v1/clock", equal, []byte("{}")); got.Code != http.StatusOK {
		t.Errorf("with an equal version: %d %s", got.Code, got.Body)
	}
	if got := ask(handler, "GET", "/v1/dial?port=1", equal, nil); got.Code != statusFailed {
		t.Errorf("a port of the host, of no instance, is reached: %d %s", got.Code, got.Body)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	handler := visitor(t)
	ask(handler, "POST", "/v1/hello", equal, []byte("{}"))
	long := `{"platform":"` + strings.Repeat("x", longestRequest) + `"}`
	if got := ask(handler, "POST", "/v1/check", nil, []byte(long)); got.Code != statusFailed || !strings.Contains(got.Body.String(), "too large") {
		t.Errorf("%d %.200s", got.Code, got.Body)
	}
}

// Whatever a client sends: it is answered by an error, and nothing panics.
func FuzzRequests(f *testing.F) {
	for _, call := range []string{"hello", "clock", "describe", "check", "supports", "prepare", "register", "launch", "create", "wait", "stop", "watch", "unwatch", "has", "attach", "power-off"} {
		f.Add("POST", "/v1/"+call, `{"platform":"inert","id":"1","digest":"sha256:x","spec":{"args":["YQ=="]}}`, "1s")
	}
	f.Add("GET", "/v1/output?id=1&of=stdout", "", "-1s")
	f.Add("GET", "/v1/dial?port=70000", "", "")
	f.Add("PUT", "/v1/image", "--b\r\n\r\n{}\r\n--b\r\n\r\ntar\r\n--b--", "")
	handler := visitor(f)
	ask(handler, "POST", "/v1/hello", equal, []byte("{}"))
	f.Fuzz(func(t *testing.T, method, path, body, timeout string) {
		if strings.HasPrefix(path, "/v1/dial") || method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			t.Skip("would reach the host's ports, or is no request")
		}
		got := ask(handler, method, path, map[string]string{headerTimeout: timeout, "Content-Type": "multipart/form-data; boundary=b"}, []byte(body))
		switch got.Code {
		case http.StatusOK, statusFailed, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		default:
			t.Errorf("%s %q is answered by %d", method, path, got.Code)
		}
		if got.Code == statusFailed {
			var failure wireError
			if err := json.Unmarshal(got.Body.Bytes(), &failure); err != nil || failure.Text == "" {
				t.Errorf("%s %q is refused without a word: %q", method, path, got.Body)
			}
		}
	})
}

// What a caller decides on is the same on both sides.
func TestErrorsKeepTheirTypes(t *testing.T) {
	cross := func(err error) error {
		b, merr := json.Marshal(encodeError(err))
		if merr != nil {
			t.Fatal(merr)
		}
		var w *wireError
		if merr := json.Unmarshal(b, &w); merr != nil {
			t.Fatal(merr)
		}
		return w.decode()
	}
	if err := cross(nil); err != nil {
		t.Errorf("nothing became %v", err)
	}
	missing := &platform.Missing{What: "no runc", Mend: "install it"}
	if got, ok := cross(missing).(*platform.Missing); !ok || *got != *missing {
		t.Errorf("%v", got)
	}
	for _, err := range []error{
		missing,
		&platform.Unsupported{Platform: "bare", Key: "memory", Reason: "no limit"},
		&probe.Missing{Probe: "causes", What: "no BTF"},
		&image.Refused{Archive: "a", Entry: "b", Reason: "c"},
		&image.Missing{What: "no apt-get"},
		&platform.BadGroup{Group: "../x", Why: "no name"},
		&platform.Endangered{Why: "full"},
		platform.ErrGone, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC,
		errors.New("plain"),
	} {
		for _, one := range []error{err, fmt.Errorf("doing this: %w", err), errors.Join(errors.New("first"), err)} {
			got := cross(one)
			if got.Error() != one.Error() {
				t.Errorf("%q became %q", one, got)
			}
			for name, sentinel := range sentinels {
				if errors.Is(got, sentinel) != errors.Is(one, sentinel) {
					t.Errorf("%q: is it %s? %v here", one, name, errors.Is(got, sentinel))
				}
			}
			if e := new(platform.Unsupported); errors.As(one, &e) && !errors.As(got, &e) {
				t.Errorf("%q lost its type", one)
			}
			if e := new(platform.BadGroup); errors.As(one, &e) && (!errors.As(got, &e) || e.Group != "../x") {
				t.Errorf("%q lost its type", one)
			}
			if e := new(platform.Endangered); errors.As(one, &e) && (!errors.As(got, &e) || e.Why != "full") {
				t.Errorf("%q lost its type", one)
			}
			if e := new(probe.Missing); errors.As(one, &e) && !errors.As(got, &e) {
				t.Errorf("%q lost its type", one)
			}
			if e := new(image.Refused); errors.As(one, &e) && (!errors.As(got, &e) || e.Entry != "b") {
				t.Errorf("%q lost its type", one)
			}
		}
	}
}

// Arguments are bytes, whatever JSON thinks of them.
func TestSpecCrossesAsItIs(t *testing.T) {
	before := platform.Spec{
		Name: "n", Group: "box-1/idle", Args: []string{"a", "", "\xff\x00"}, Env: []string{"K=\xfe"}, Dir: "/d", Ports: []int{1}, Data: []string{"/data"},
		Setting: platform.Setting{CPUs: 0.5, Memory: 1 << 40, Network: platform.NetworkBridge},
		Image:   image.Image{Name: "i", Digest: "sha256:x", Root: "/here", Archive: "/here.tar", Config: image.Config{Env: []string{"A=1"}}},
	}
	b, err := json.Marshal(specOf(before))
	if err != nil {
		t.Fatal(err)
	}
	var crossed spec
	if err := json.Unmarshal(b, &crossed); err != nil {
		t.Fatal(err)
	}
	after := crossed.spec()
	if fmt.Sprint(after.Args, after.Env, after.Setting, after.Dir, after.Ports, after.Data, after.Group) != fmt.Sprint(before.Args, before.Env, before.Setting, before.Dir, before.Ports, before.Data, before.Group) {
		t.Errorf("%+v became %+v", before, after)
	}
	if after.Image.Root != "" || after.Image.Archive != "" || after.Image.Digest != "sha256:x" {
		t.Errorf("of the image crossed %+v", after.Image)
	}
}

// Whatever an agent answers, the client has an error that says something.
func FuzzErrors(f *testing.F) {
	for _, err := range []error{errors.New("plain"), &platform.Missing{What: "a", Mend: "b"}, &platform.Unsupported{Platform: "inert", Key: "cpus", Reason: "c"}} {
		text, merr := json.Marshal(encodeError(err))
		if merr != nil {
			f.Fatal(merr)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var w wireError
		if json.Unmarshal(text, &w) != nil || w.Text == "" {
			return
		}
		if err := w.decode(); err == nil {
			t.Errorf("%q is no error", text)
		} else {
			_ = err.Error()
		}
	})
}
