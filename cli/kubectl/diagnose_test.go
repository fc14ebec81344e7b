package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tare/cli/command"
	"tare/study/diagnose"
)

// apiServer answers for a cluster with one pod, whose node has diagnosed it as soon as its Job is made.
type apiServer struct {
	lacks string // the resource that the user may not use: "jobs"
	fails bool   // the node's pod fails
	other bool   // the node speaks for a container of another one

	lock  sync.Mutex
	calls []string
}

const subject = `{"metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web", "pod-template-hash": "5d9"},
  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9", "uid": "1", "controller": true}]},
 "spec": {"nodeName": "a", "containers": [{"name": "app"}]},
 "status": {"phase": "Running", "containerStatuses": [{"name": "app", "state": {"running": {}}}]}}`

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.lock.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	s.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	say := func(format string, values ...any) { fmt.Fprintf(w, format, values...) }
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		say(`{"status": {"allowed": %t}}`, s.lacks == "" || !bytes.Contains(body, []byte(s.lacks)))
	case strings.HasSuffix(path, "/log"):
		container := "shop/web-1/app"
		if s.other {
			container = "shop/web-2/app"
		}
		document, _ := json.Marshal(diagnose.Document{
			Schema: diagnose.Schema, Containers: []string{"shop/web-1/app"}, Findings: []diagnose.Finding{{
				ID: container + "/throttled", Container: container, Kind: diagnose.Throttled, Level: diagnose.High,
				Says: "used up its quota", Set: []diagnose.Remedy{{Says: "a quota", Command: "resources: {limits: {cpu: 300m}}"}},
			}},
		})
		say("%s\n", document)
	case r.URL.Query().Get("labelSelector") == "app=web":
		say(`{"kind": "PodList", "apiVersion": "v1", "items": [%s]}`, subject)
	case path == "/apis/apps/v1/namespaces/shop/deployments/web":
		say(`{"spec": {"selector": {"matchLabels": {"app": "web"}}}}`)
	case strings.HasSuffix(path, "/pods") && r.URL.Query().Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(path, "/pods"): // those of the Job
		phase, state := "Succeeded", `{"terminated": {"exitCode": 0}}`
		if s.fails {
			phase, state = "Failed", `{"terminated": {"exitCode": 3, "message": "kubectl-tare: the kernel lacks tracepoints"}}`
		}
		say(`{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "look", "uid": "1",
			"labels": {"tare/node-index": "0"}}, "status": {"phase": %q, "containerStatuses": [{"name": "measure", "state": %s}]}}]}`, phase, state)
	case strings.Contains(path, "/deployments/"):
		w.WriteHeader(http.StatusNotFound)
		say(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	default: // what is made and deleted
		say(`{}`)
	}
}

func diagnoseBy(t *testing.T, s *apiServer, line ...string) (code int, out, said string) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config")
	if err := writeConfig(config, server.URL); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"kubectl-tare", "diagnose", "-n", "shop", "--job-namespace", "tare", "--node-image", "tare@sha256:" + noDigest, "--kubeconfig", config}, line...)
	var stdout, stderr bytes.Buffer
	code = command.Run(t.Context(), Command(args), args, &stdout, &stderr, exitCode)
	return code, stdout.String(), stderr.String()
}

// A Deployment is diagnosed: its pods are found in their namespace, and the Jobs come and go in another.
func TestDiagnose(t *testing.T) {
	s := &apiServer{}
	code, out, said := diagnoseBy(t, s, "deploy/web", "--fail-on", "high")
	if code != command.Threshold || !strings.Contains(said, "1 container on 1 node") || !strings.Contains(said, "shop/web-1/app/throttled is high") {
		t.Errorf("code %d: %s", code, said)
	}
	words := strings.Join(strings.Fields(strings.ReplaceAll(out, "\\\n", "")), " ")
	if !strings.Contains(words, "kubectl --kubeconfig /") || !strings.Contains(words, "/config patch -n shop deployment web --patch") {
		t.Errorf("the page lacks the command:\n%s", out)
	}
	var changes []string
	for _, call := range s.calls {
		if !strings.HasPrefix(call, "GET ") && !strings.Contains(call, "selfsubject") {
			method, path, _ := strings.Cut(call, " ")
			changes = append(changes, method+" "+filepath.Dir(path))
		}
	}
	const jobs = " /apis/batch/v1/namespaces/tare/jobs"
	if want := []string{"PATCH /api/v1/namespaces/tare/pods", "PATCH" + jobs, "DELETE" + jobs}; !slices.Equal(changes, want) {
		t.Errorf("changes are %q, want %q", changes, want)
	}
}

func TestDiagnoseThatFails(t *testing.T) {
	for _, c := range []struct {
		server *apiServer
		line   string
		code   int
		want   string
	}{
		{&apiServer{fails: true}, "deployment/web", command.Failure, "1 node missing"},
		{&apiServer{other: true}, "deployment/web", command.Failure, "1 node missing"},
		{&apiServer{}, "deployment/wbe", command.Usage, "namespace shop has no deployment wbe"},
		{&apiServer{}, "deployment/wbe --node-image tare:1", command.Usage, "--node-image tare:1 has no digest"},
		{&apiServer{lacks: "jobs"}, "deployment/web", command.Host, "you may not create jobs.batch in namespace tare"},
	} {
		code, out, said := diagnoseBy(t, c.server, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%s: code %d: %s%s", c.line, code, said, out)
		}
		if c.code == command.Host && !strings.Contains(said, "\nkind: Role\nmetadata:\n") {
			t.Errorf("what is printed is no Role:\n%s", said)
		}
		if c.server.other && !strings.Contains(strings.Join(strings.Fields(out), " "), "shop/web-2/app/throttled (high), for which it was not asked") {
			t.Errorf("the page lacks the cause:\n%s", out)
		}
		if c.server.fails && !strings.Contains(out, "a: kubectl-tare: the kernel lacks tracepoints") {
			t.Errorf("the page lacks the cause:\n%s", out)
		}
	}
}
