package k8s

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tare/platform"
	"tare/platform/rootfs"
)

type object = map[string]any

const (
	podNamespace  = "default"
	containerName = "program"
)

// manifest is the pod of a program, as JSON.
func manifest(
	uid string,
	spec platform.Spec,
	program platform.Process,
	binds []rootfs.Bind,
	to ways,
) ([]byte, error) {
	env, err := environment(program.Env, spec.Image.Config.Env)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", spec.Image.Name, err)
	}
	command := make([]string, len(program.Args))
	for i, arg := range program.Args {
		command[i] = literally(arg)
	}
	profile := "RuntimeDefault"
	if spec.Setting.Seccomp == "unconfined" {
		profile = "Unconfined"
	}
	volumes, mounts := []object{}, []object{}
	for i, bind := range binds {
		name := fmt.Sprintf("data-%d", i)
		volumes = append(volumes, object{"name": name, "hostPath": object{"path": bind.Source, "type": "Directory"}})
		mounts = append(mounts, object{"name": name, "mountPath": bind.Target})
	}
	namespace, labels, ports := podNamespace, object{"app.kubernetes.io/managed-by": "tare"}, []object{}
	if to.service != nil {
		namespace, labels[ServiceLabel] = to.service.Namespace, to.service.Name
	}
	for i, port := range spec.Ports {
		if to.service != nil {
			ports = append(ports, object{"containerPort": port, "name": PortName(i)})
		} else if published, ok := to.published[port]; ok {
			ports = append(ports, object{"containerPort": port, "hostPort": published, "hostIP": loopback})
		}
	}
	network := spec.Setting.Network
	pod := object{
		"apiVersion": "v1", "kind": "Pod",
		// Without hyphens it is in the control group's path whichever driver the kubelet has.
		"metadata": object{"name": spec.Name, "namespace": namespace, "uid": uid, "labels": labels},
		"spec": object{
			"hostname":                      platform.Surroundings.Hostname,
			"hostNetwork":                   network == "" || network == platform.NetworkHost,
			"restartPolicy":                 "Never",
			"terminationGracePeriodSeconds": 1,
			"automountServiceAccountToken":  false,
			"enableServiceLinks":            false,
			"volumes":                       volumes,
			"securityContext": object{
				"runAsUser": program.User.UID, "runAsGroup": program.User.GID, "supplementalGroups": program.User.Groups,
				"seccompProfile": object{"type": profile},
			},
			"containers": []object{{
				"name": containerName, "image": spec.Image.Reference, "imagePullPolicy": "Never",
				"command": command, "env": env, "workingDir": program.Dir,
				"resources": resources(spec.Setting), "volumeMounts": mounts, "ports": ports,
			}},
		},
	}
	return json.Marshal(pod)
}

// resources are the container's requests and limits.
func resources(s platform.Setting) object {
	requests, limits := object{}, object{}
	if s.CPUs != 0 {
		limits["cpu"] = fmt.Sprintf("%dm", thousandths(s.CPUs))
	}
	if s.CPUShares != 0 {
		requests["cpu"] = fmt.Sprintf("%dm", requestOf(s.CPUShares))
	}
	if s.Memory != 0 {
		limits["memory"] = fmt.Sprint(s.Memory)
	}
	return object{"requests": requests, "limits": limits}
}

// variableName is what Kubernetes 1.30 takes (IsEnvVarName, apimachinery/pkg/util/validation).
var variableName = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

// environment is that of the container, whose image has variables, too. Those, and the ones that
// every platform sets, are in each container.
func environment(all, ofImage []string) ([]object, error) {
	env, given := []object{}, map[string]bool{}
	for _, entry := range all {
		name, value, _ := strings.Cut(entry, "=")
		if !variableName.MatchString(name) {
			return nil, fmt.Errorf("variable %q: pods have none of such a name: letters, digits, '_', '-' and '.', no digit first", name)
		}
		given[name] = true
		env = append(env, object{"name": name, "value": literally(value)})
	}
	for _, entry := range slices.Concat(platform.Surroundings.Env, ofImage) {
		if name, _, hasValue := strings.Cut(entry, "="); hasValue && !given[name] {
			return nil, fmt.Errorf("variable %s cannot be taken away: pods have all that the image has, and PATH and HOSTNAME", name)
		}
	}
	return env, nil
}

// literally keeps $(NAME) from being replaced in a command or a variable.
func literally(text string) string { return strings.ReplaceAll(text, "$", "$$") }
