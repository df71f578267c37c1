package atenet

import (
	"os"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// readManifests decodes deploy/atenet-router.yaml as Kubernetes' API does when it
// is strict: an unknown field is an error.
func readManifests(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../deploy/atenet-router.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]any)
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		object, ok := map[string]any{
			"v1 ServiceAccount":             new(core.ServiceAccount),
			"v1 Service":                    new(core.Service),
			"apps/v1 Deployment":            new(apps.Deployment),
			"policy/v1 PodDisruptionBudget": new(policy.PodDisruptionBudget),
		}[kind.APIVersion+" "+kind.Kind]
		if !ok {
			t.Errorf("%s %s is no kind that this test knows", kind.APIVersion, kind.Kind)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		found[kind.Kind] = object
	}
	if len(found) != 4 {
		t.Fatalf("there are %d kinds, want 4", len(found))
	}
	return found
}

func TestTheManifestIsWhatKubernetesReads(t *testing.T) {
	objects := readManifests(t)
	deployment := objects["Deployment"].(*apps.Deployment)
	service := objects["Service"].(*core.Service)
	disruption := objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget)
	pod := deployment.Spec.Template
	for name, selector := range map[string]map[string]string{
		"the Deployment": deployment.Spec.Selector.MatchLabels, "the Service": service.Spec.Selector, "the budget": disruption.Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			if pod.Labels[key] != value {
				t.Errorf("%s selects %s=%s, the pod has %q", name, key, value, pod.Labels[key])
			}
		}
	}
	if account := objects["ServiceAccount"].(*core.ServiceAccount); pod.Spec.ServiceAccountName != account.Name || service.Namespace != account.Namespace {
		t.Errorf("the pod's account is %s, not %s", pod.Spec.ServiceAccountName, account.Name)
	}
	if most := disruption.Spec.MinAvailable.IntValue(); int(*deployment.Spec.Replicas) <= most {
		t.Errorf("%d replicas, of which %d must stay: no node can be drained", *deployment.Spec.Replicas, most)
	}
	checkContainers(t, pod.Spec, service)
}

func checkContainers(t *testing.T, pod core.PodSpec, service *core.Service) {
	t.Helper()
	volumes, ports := make(map[string]bool), make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
		if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s may more than it has to", c.Name)
		}
		own := make(map[string]bool)
		for _, p := range c.Ports {
			own[p.Name], ports[p.Name] = true, true
		}
		for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
			switch {
			case probe == nil:
			case probe.HTTPGet != nil && !own[probe.HTTPGet.Port.String()], probe.TCPSocket != nil && !own[probe.TCPSocket.Port.String()]:
				t.Errorf("%s is probed at a port that it does not have", c.Name)
			}
		}
	}
	for _, p := range service.Spec.Ports {
		if !ports[p.TargetPort.String()] {
			t.Errorf("the Service leads to %s, which no container has", p.TargetPort.String())
		}
	}
	// An Envoy that had its TERM with the router's would drop what it holds; one
	// that had to be ready first would wait for the router, which starts after it.
	for _, c := range pod.InitContainers {
		if c.Name == "envoy" && (c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways || c.StartupProbe != nil) {
			t.Error("Envoy is no sidecar container that the router can start beside and end before")
		}
	}
}
