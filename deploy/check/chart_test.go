package check

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var (
	chartFolder     = filepath.Join("..", "helm", "weirkeeper")
	kubernetesChart = filepath.Join("..", "helm", "weir-kubernetes")
)

type values = map[string]any

// render returns the objects of a chart, by KIND/NAME. Each has only keys that Kubernetes has.
func render(t *testing.T, folder string, v values) map[string]runtime.Object {
	t.Helper()
	texts, err := Render(folder, "w", "weir", v)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]runtime.Object{}
	for _, text := range texts {
		maps.Copy(objects, parse(t, text))
	}
	return objects
}

func parse(t *testing.T, text string) map[string]runtime.Object {
	t.Helper()
	objects := map[string]runtime.Object{}
	for _, part := range strings.Split("\n"+text, "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		object := map[string]runtime.Object{
			"Deployment": &apps.Deployment{}, "ConfigMap": &core.ConfigMap{}, "ServiceAccount": &core.ServiceAccount{}, "Service": &core.Service{}, "PodDisruptionBudget": &policy.PodDisruptionBudget{},
			"ClusterRole": &rbac.ClusterRole{}, "ClusterRoleBinding": &rbac.ClusterRoleBinding{},
			"ValidatingAdmissionPolicy": &admission.ValidatingAdmissionPolicy{}, "ValidatingAdmissionPolicyBinding": &admission.ValidatingAdmissionPolicyBinding{},
		}[head.Kind]
		if object == nil {
			t.Fatalf("kind %q is not expected:\n%s", head.Kind, part)
		}
		if err := yaml.UnmarshalStrict([]byte(part), object); err != nil {
			t.Errorf("%s/%s: %v\n%s", head.Kind, head.Metadata.Name, err, part)
		}
		objects[head.Kind+"/"+head.Metadata.Name] = object
	}
	return objects
}

func TestChartPassesHelmsLinter(t *testing.T) {
	for _, m := range lint.All(kubernetesChart, nil, "weir", true).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("weir-kubernetes: %v", m)
		}
	}
	for name, v := range map[string]values{"defaults": nil, "all": {"placer": values{"enabled": true}, "auth": values{"enabled": true}, "notify": values{"enabled": true}, "web": values{"enabled": true}}} {
		for _, m := range lint.All(chartFolder, v, "weir", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

func TestChart(t *testing.T) {
	objects := render(t, chartFolder, values{
		"pools":  values{"batch": values{"secret": "s", "config": values{"min": 1}, "args": []any{"--dry-run"}}},
		"placer": values{"enabled": true, "args": []any{"--log-level", "debug"}}, "auth": values{"enabled": true}, "notify": values{"enabled": true}, "web": values{"enabled": true}, "harmonizer": values{"replicas": 3}, "image": values{"tag": "1.2.3"},
	})
	var names []string
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if d, ok := objects[name].(*apps.Deployment); ok {
			names = append(names, d.Name)
			hardened(t, d, false)
		}
	}
	if want := []string{"w-auth", "w-harmonizer", "w-notify", "w-placer", "w-pool-batch", "w-pool-default", "w-web"}; !slices.Equal(names, want) {
		t.Fatalf("deployments %v, want %v", names, want)
	}
	batch := objects["Deployment/w-pool-batch"].(*apps.Deployment).Spec.Template.Spec.Containers[0]
	if got := strings.Join(batch.Args, " "); got != "bootstrap --admin-addr :9463 --dry-run" || batch.Image != "weir:1.2.3" {
		t.Errorf("pool batch runs %q of %s", got, batch.Image)
	}
	placerOfAllPools(t, objects)
	webIsReached(t, objects)
	if n := *objects["Deployment/w-harmonizer"].(*apps.Deployment).Spec.Replicas; n != 3 {
		t.Errorf("%d harmonizers, want 3", n)
	}
	config := objects["ConfigMap/w-weirkeeper"].(*core.ConfigMap).Data
	if config["pool.batch.yaml"] != "min: 1\n" && config["pool.batch.yaml"] != "min: 1" {
		t.Errorf("file of pool batch: %q", config["pool.batch.yaml"])
	}
}

// placerOfAllPools requires that the placer has each pool as an argument, and a key for each. Other daemons have one key.
func placerOfAllPools(t *testing.T, objects map[string]runtime.Object) {
	t.Helper()
	files := objects["ConfigMap/w-weirkeeper"].(*core.ConfigMap).Data
	for name, want := range map[string]struct{ args, key string }{
		"placer":       {"placer --admin-addr :9469 --log-level debug batch default", "${CREDENTIALS_DIRECTORY}/nats.{pool}.nk"},
		"harmonizer":   {"harmonizer --admin-addr :9464", "${CREDENTIALS_DIRECTORY}/nats.nk"},
		"notify":       {"notify --admin-addr :9470", "${CREDENTIALS_DIRECTORY}/nats.nk"},
		"pool-default": {"bootstrap --admin-addr :9463", "${CREDENTIALS_DIRECTORY}/nats.nk"},
	} {
		pod := objects["Deployment/w-"+name].(*apps.Deployment).Spec.Template.Spec
		if got := strings.Join(pod.Containers[0].Args, " "); got != want.args {
			t.Errorf("%s runs %q, want %q", name, got, want.args)
		}
		var file struct {
			NATS struct {
				Servers []string `json:"servers"`
				Key     string   `json:"nkey_file"`
			} `json:"nats"`
		}
		i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "config" })
		items := pod.Volumes[i].ConfigMap.Items
		if items[0].Path != "weir.yaml" {
			t.Fatalf("%s: files %v, want weir.yaml first", name, items)
		}
		if err := yaml.Unmarshal([]byte(files[items[0].Key]), &file); err != nil || file.NATS.Key != want.key || len(file.NATS.Servers) != 3 {
			t.Errorf("%s: %v, weir.yaml %+v, want the key %s", name, err, file, want.key)
		}
	}
}

// webIsReached requires that the service of the dashboard leads to a port of its pods, which weir.yaml sets, with TLS.
func webIsReached(t *testing.T, objects map[string]runtime.Object) {
	t.Helper()
	d, s := objects["Deployment/w-web"].(*apps.Deployment), objects["Service/w-web"].(*core.Service)
	if !maps.Equal(s.Spec.Selector, d.Spec.Template.Labels) {
		t.Errorf("the service selects %v, and the pods have %v", s.Spec.Selector, d.Spec.Template.Labels)
	}
	ports := d.Spec.Template.Spec.Containers[0].Ports
	i := slices.IndexFunc(ports, func(p core.ContainerPort) bool { return p.Name == s.Spec.Ports[0].TargetPort.String() })
	if i < 0 {
		t.Fatalf("the service leads to port %v, the pods have %v", s.Spec.Ports[0].TargetPort, ports)
	}
	var file struct {
		Web struct {
			Addr string            `json:"addr"`
			TLS  map[string]string `json:"tls"`
		} `json:"web"`
	}
	text := objects["ConfigMap/w-weirkeeper"].(*core.ConfigMap).Data["weir.web.yaml"]
	if err := yaml.Unmarshal([]byte(text), &file); err != nil || file.Web.Addr != fmt.Sprintf(":%d", ports[i].ContainerPort) || len(file.Web.TLS) != 2 {
		t.Errorf("weir.yaml %v:\n%s\nwant port %d with TLS", err, text, ports[i].ContainerPort)
	}
}

// hardened requires that a daemon runs without rights of the system, is probed, and that each mount has its volume. token: it has
// the token of its service account.
func hardened(t *testing.T, d *apps.Deployment, token bool) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	s, p := c.SecurityContext, pod.SecurityContext
	if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile == nil || *pod.AutomountServiceAccountToken != token {
		t.Errorf("%s: the pod's security context %+v, want no root, a seccomp profile, and a token: %v", d.Name, p, token)
	}
	if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s: security context %+v, want no rights", d.Name, s)
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || len(c.Ports) == 0 || c.Ports[0].Name != c.LivenessProbe.HTTPGet.Port.String() {
		t.Errorf("%s: probes %v %v of ports %v", d.Name, c.LivenessProbe, c.ReadinessProbe, c.Ports)
	}
	if len(d.Spec.Selector.MatchLabels) == 0 || !maps.Equal(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
		t.Errorf("%s: selector %v, labels %v", d.Name, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s: mount %s has no volume", d.Name, m.Name)
		}
	}
}

// A digest of the image is in place of its tag.
func TestChartRunsTheImageOfADigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	objects := render(t, chartFolder, values{"image": values{"tag": "1.2.3", "digest": digest}})
	if got := objects["Deployment/w-harmonizer"].(*apps.Deployment).Spec.Template.Spec.Containers[0].Image; got != "weir@"+digest {
		t.Errorf("the harmonizer runs %s, want weir@%s", got, digest)
	}
}

// The schema refuses values that no daemon would accept.
func TestChartRefusesWrongValues(t *testing.T) {
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]values{
		"unknown key": {"harmoniser": values{"enabled": true}}, "replicas": {"harmonizer": values{"replicas": 9}}, "cluster": {"cluster": "a.b"},
		"pool": {"pools": values{"A_B": values{"secret": "s", "config": values{}}}}, "no secret": {"pools": values{"batch": values{"config": values{}}}},
		"image": {"image": values{"repository": ""}}, "pull policy": {"image": values{"pullPolicy": "Sometimes"}},
		"digest": {"image": values{"digest": "sha256:0a"}},
	} {
		if _, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "w"}, chartutil.DefaultCapabilities); err == nil {
			t.Errorf("%s: the values %v are accepted", name, v)
		}
	}
}

// weir-kubernetes has the rights of its page, and no others. Its policy names the nodes of all pools.
func TestKubernetesChart(t *testing.T) {
	pools := values{"web": values{"default": true}, "gpu": values{"selector": values{"example.com/team": "ml", "gpu": "true"}}}
	objects := render(t, kubernetesChart, values{"config": values{"pools": pools}, "image": values{"tag": "1.2.3"}})
	d := objects["Deployment/w"].(*apps.Deployment)
	hardened(t, d, true)
	if c := d.Spec.Template.Spec.Containers[0]; c.Image != "weir-kubernetes:1.2.3" || !slices.Equal(c.Args, []string{"--config", "/etc/weir/kubernetes.yaml"}) {
		t.Errorf("runs %v of %s", c.Args, c.Image)
	}
	var rights []string
	for _, r := range objects["ClusterRole/w"].(*rbac.ClusterRole).Rules {
		rights = append(rights, fmt.Sprint(r.APIGroups, r.Resources, r.Verbs))
	}
	if want := []string{"[] [nodes] [get list watch patch delete]", "[] [pods persistentvolumes] [list watch]", "[] [pods/eviction] [create]", "[policy] [poddisruptionbudgets] [list watch]"}; !slices.Equal(rights, want) {
		t.Errorf("rights %q, want %q", rights, want)
	}
	if s := objects["ClusterRoleBinding/w"].(*rbac.ClusterRoleBinding).Subjects; len(s) != 1 || s[0].Namespace != "weir" || s[0].Name != d.Spec.Template.Spec.ServiceAccountName {
		t.Errorf("subjects %v", s)
	}
	policy := objects["ValidatingAdmissionPolicy/w"].(*admission.ValidatingAdmissionPolicy).Spec
	const nodes = `(variables.labels[?"weirkeeper.dev/pool"] == optional.of("default")) || (variables.labels[?"example.com/team"] == optional.of("ml") && variables.labels[?"gpu"] == optional.of("true")) || ` +
		`(variables.labels[?"weirkeeper.dev/pool"] == optional.of("web"))`
	if policy.Validations[1].Expression != nodes || policy.MatchConditions[0].Expression != `request.userInfo.username == "system:serviceaccount:weir:w"` {
		t.Errorf("nodes %s of %s", policy.Validations[1].Expression, policy.MatchConditions[0].Expression)
	}
	objects = render(t, kubernetesChart, values{"config": values{"delete_ended_nodes": false}, "admissionPolicy": values{"enabled": false}})
	if verbs := objects["ClusterRole/w"].(*rbac.ClusterRole).Rules[0].Verbs; slices.Contains(verbs, "delete") || objects["ValidatingAdmissionPolicy/w"] != nil {
		t.Errorf("verbs %v, want no delete and no policy", verbs)
	}
}

// The schema of weir-kubernetes refuses values that would limit nothing, or that the program would not accept.
func TestKubernetesChartRefusesWrongValues(t *testing.T) {
	for name, v := range map[string]values{
		"unknown key": {"pools": values{}}, "replicas": {"replicas": 0}, "no secret": {"secret": ""}, "cluster": {"config": values{"cluster": "a.b"}},
		"selector of all nodes": {"config": values{"pools": values{"web": values{"selector": values{}}}}},
		"selector":              {"config": values{"pools": values{"web": values{"selector": values{"gpu": true}}}}},
	} {
		if _, err := Render(kubernetesChart, "w", "weir", v); err == nil {
			t.Errorf("%s: the values %v are accepted", name, v)
		}
	}
}
