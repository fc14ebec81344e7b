package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"tare/platform"
	"tare/platform/k8s"
)

// firstServicePort is the port of a Service that leads to a pod's first.
const firstServicePort = 8001

// mostServices bounds those of a study: a cluster has 2,768 NodePorts by default, and each kube-proxy has all Services.
const mostServices = 500

// check refuses more Services than a cluster should get.
func (s Services) check(nodes int) error {
	each := 0
	for _, pods := range s.Pods {
		each += pods * max(1, s.Ports)
	}
	if each*nodes <= mostServices {
		return nil
	}
	return fmt.Errorf("pods of %d nodes need %d ports of Services, and a study makes %d at most: choose fewer nodes, or one network",
		nodes, each*nodes, mostServices)
}

// serve makes the Services of one node's pods, where the study needs some. Each selects the pods that tare on the
// node gives its name. cause says why there are none.
func (c *Cluster) serve(
	ctx context.Context,
	s Study,
	index int,
	node Node,
) (made []k8s.Service, cause string, err error) {
	for _, network := range slices.Sorted(maps.Keys(s.Services.Pods)) {
		for i := range s.Services.Pods[network] {
			wanted := s.service(c.Namespace, index, i, network)
			is, err := c.Client.CoreV1().Services(c.Namespace).Apply(ctx, wanted, applying)
			if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsInternalError(err) {
				// A quota, an admission, or no address or port is left.
				return nil, "no Service for its pods: " + err.Error(), nil
			}
			if err != nil {
				return nil, "", fmt.Errorf("make a Service for pods of node %s: %w", node.Name, err)
			}
			made = append(made, serviceOf(is, network, node))
		}
	}
	return made, "", nil
}

// service is one of a node's Services.
func (s Study) service(namespace string, index, i int, network platform.Network) *corev1ac.ServiceApplyConfiguration {
	kind, short := corev1.ServiceTypeClusterIP, "c"
	if network == platform.NetworkNodePort {
		kind, short = corev1.ServiceTypeNodePort, "n"
	}
	name := s.jobName(index) + "-" + short + strconv.Itoa(i)
	spec := corev1ac.ServiceSpec().WithType(kind).WithSelector(map[string]string{k8s.ServiceLabel: name})
	// The shipped services listen on IPv4.
	spec.WithIPFamilyPolicy(corev1.IPFamilyPolicySingleStack).WithIPFamilies(corev1.IPv4Protocol)
	for place := range max(1, s.Services.Ports) {
		spec.WithPorts(corev1ac.ServicePort().WithName(k8s.PortName(place)).WithProtocol(corev1.ProtocolTCP).
			WithPort(int32(firstServicePort + place)).WithTargetPort(intstr.FromString(k8s.PortName(place))))
	}
	return corev1ac.Service(name, namespace).WithLabels(labelsOf(s.ID, index)).
		WithOwnerReferences(s.ownerReference()).WithSpec(spec)
}

// serviceOf is how a node's pods are reached through a Service that was made.
func serviceOf(is *corev1.Service, network platform.Network, node Node) k8s.Service {
	s := k8s.Service{Network: network, Namespace: is.Namespace, Name: is.Name, Address: is.Spec.ClusterIP}
	for _, p := range is.Spec.Ports {
		s.Ports = append(s.Ports, int(p.Port))
	}
	if network == platform.NetworkNodePort {
		s.Address = node.Address
		for i, p := range is.Spec.Ports {
			s.Ports[i] = int(p.NodePort)
		}
	}
	return s
}

// serviceArgs name Services to who measures on the node.
func serviceArgs(services []k8s.Service) ([]string, error) {
	if len(services) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(services)
	return []string{"--services", string(text)}, err
}
