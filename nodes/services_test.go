package nodes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"tare/platform"
	"tare/platform/k8s"
)

// What nodes need besides comes with the Job: the texts of files, images that the kubelet pulls before anything is
// measured, and Services, which go with the study.
func TestNeeds(t *testing.T) {
	client := fake.NewClientset()
	c := &Cluster{Client: client, Namespace: "bench"}
	s := example
	s.Images = []string{"shop/app:1"}
	s.Files = map[string]string{"app.yaml": "name: app\n"}
	s.Services = Services{Pods: map[platform.Network]int{platform.NetworkClusterIP: 2, platform.NetworkNodePort: 1}, Ports: 2}
	if cause, err := c.start(t.Context(), s, 1, Node{Name: "b.example", Address: "10.1.2.3"}); cause != "" || err != nil {
		t.Fatal(cause, err)
	}
	job, err := client.BatchV1().Jobs("bench").Get(t.Context(), s.jobName(1), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := job.Spec.Template.Spec.InitContainers
	if len(all) != 3 || all[1].Image != "shop/app:1" || all[1].Command[0] != all[0].Args[2] || all[1].VolumeMounts[0].MountPath != all[0].VolumeMounts[0].MountPath {
		t.Fatalf("%+v", all)
	}
	measure := all[2]
	files := measure.Env[len(measure.Env)-1]
	if files.Name != FilesVariable || files.ValueFrom.ConfigMapKeyRef.Name != s.Parent() || files.ValueFrom.ConfigMapKeyRef.Key != filesKey {
		t.Errorf("files come by %+v", files)
	}
	if !slices.Contains(measure.Args, "--files") {
		t.Errorf("arguments %q", measure.Args)
	}
	at := slices.Index(measure.Args, "--services")
	if at < 0 || at > slices.Index(measure.Args, "--") {
		t.Fatalf("arguments %q", measure.Args)
	}
	var given []k8s.Service
	if err := json.Unmarshal([]byte(measure.Args[at+1]), &given); err != nil {
		t.Fatal(err)
	}
	if len(given) != 3 || given[2].Network != platform.NetworkNodePort || given[2].Address != "10.1.2.3" || len(given[2].Ports) != 2 {
		t.Errorf("Services %+v", given)
	}
	for _, g := range given {
		is, err := client.CoreV1().Services("bench").Get(t.Context(), g.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if g.Namespace != "bench" || is.Spec.Selector[k8s.ServiceLabel] != g.Name || len(is.OwnerReferences) != 1 || is.OwnerReferences[0].UID != "uid" {
			t.Errorf("%+v: %+v", g, is)
		}
		if p := is.Spec.Ports[1]; p.Name != k8s.PortName(1) || p.TargetPort.StrVal != k8s.PortName(1) {
			t.Errorf("its second port is %+v", p)
		}
	}
	cause, err := c.start(t.Context(), s, 0, Node{Name: "a"})
	if err != nil || !strings.Contains(cause, "address") {
		t.Errorf("a node without an address: %q, %v", cause, err)
	}
	if lease, err := client.CoordinationV1().Leases("bench").Get(t.Context(), leaseName("a"), metav1.GetOptions{}); err == nil {
		t.Errorf("it was taken: %+v", lease)
	}
	s.Services.Pods[platform.NetworkNodePort] = mostServices
	if err := c.CheckAdmission(t.Context(), s); err == nil {
		t.Error("as many Services are made as anybody asks for")
	}
	s.Services.Pods[platform.NetworkNodePort] = 1
	s.Files["large"] = strings.Repeat("x", mostFiles)
	if _, err := c.Create(t.Context(), s); err == nil {
		t.Error("files are taken that no variable holds")
	}
}

func TestServiceOf(t *testing.T) {
	is := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.9.9.9", Ports: []corev1.ServicePort{{Port: 8001, NodePort: 30001}}}}
	for network, want := range map[platform.Network]string{
		platform.NetworkClusterIP: "10.9.9.9 [8001]", platform.NetworkNodePort: "10.1.2.3 [30001]",
	} {
		s := serviceOf(is, network, Node{Address: "10.1.2.3"})
		ports, _ := json.Marshal(s.Ports)
		if got := s.Address + " " + string(ports); got != want {
			t.Errorf("%s is reached at %s, want %s", network, got, want)
		}
	}
}
