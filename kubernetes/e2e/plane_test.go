//go:build plane

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// Users of the API server. Their names are their tokens.
const (
	admin     = "admin"
	scheduler = "scheduler"
	adapter   = "adapter" // the service account of the chart
)

const (
	// patience is how long a test waits for what has to happen.
	patience = 5 * time.Minute
	every    = 100 * time.Millisecond
	// lifecycleGrace is how long a kubelet is silent until its node is not Ready.
	lifecycleGrace = "8s"
)

// plane is a control plane of Kubernetes.
type plane struct {
	*testing.T
	*client
	folder, program string
	port            int
	server          *process
	report          func() // logs what an operator reads first; nil: nothing
}

// startPlane starts etcd and an API server, and waits until it is ready.
func startPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{T: t, folder: t.TempDir(), program: program(t, "plane"), port: bustest.Ports(t, 1)[0]}
	write(t, p.path("tokens.csv"), fmt.Sprintf("%s,admin,1,system:masters\n%s,system:kube-scheduler,2\n%s,system:serviceaccount:weir:weir-kubernetes,3,\"system:serviceaccounts,system:serviceaccounts:weir\"\n", admin, scheduler, adapter))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.path("sa.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	run(t, "etcd", nil, p.program, "etcd", p.path("etcd"), p.socket())
	p.startServer()
	began := time.Now()
	var version struct{ GitVersion string }
	p.until("the API server is ready", func() bool {
		ca, err := os.ReadFile(p.ca())
		if err != nil {
			return false
		}
		p.client = newClient(p.url(), admin, ca)
		return p.do(t.Context(), http.MethodGet, "/readyz", nil, nil) == nil
	})
	p.until("it has a version", func() bool { return p.do(t.Context(), http.MethodGet, "/version", nil, &version) == nil })
	t.Logf("ready after %v: Kubernetes %s", time.Since(began).Round(every), version.GitVersion)
	return p
}

// startControllers starts the scheduler and the controllers. A node is not Ready when its kubelet is silent for grace.
func (p *plane) startControllers(grace string) {
	run(p.T, "scheduler", nil, p.program, "scheduler", "--kubeconfig", p.kubeconfig(scheduler), "--leader-elect=false", "--secure-port=0")
	run(p.T, "controllers", nil, p.program, "controllers", p.kubeconfig(admin), grace)
}

func (p *plane) path(name string) string { return filepath.Join(p.folder, name) }
func (p *plane) socket() string          { return p.path("etcd.sock") }
func (p *plane) url() string             { return fmt.Sprintf("https://127.0.0.1:%d", p.port) }
func (p *plane) ca() string              { return p.path("certificates/apiserver.crt") }

// startServer starts the API server, also after it was killed.
func (p *plane) startServer() {
	p.server = run(p.T, "kube-apiserver", nil, p.program, "apiserver", "--etcd-servers=unix://"+p.socket(), "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", p.port),
		"--cert-dir="+p.path("certificates"), "--token-auth-file="+p.path("tokens.csv"), "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://plane", "--service-account-key-file="+p.path("sa.key"),
		"--service-account-signing-key-file="+p.path("sa.key"), "--v=0")
}

// kubeconfig writes the file of a user, and returns its path.
func (p *plane) kubeconfig(user string) string {
	type object = map[string]any
	data, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{object{"name": "c", "cluster": object{"server": p.url(), "certificate-authority": p.ca()}}},
		"users":    []any{object{"name": "u", "user": object{"token": user}}},
		"contexts": []any{object{"name": "c", "context": object{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		p.Fatal(err)
	}
	path := p.path(user + ".json")
	write(p.T, path, string(data))
	return path
}

func write(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until ok returns true.
func (p *plane) until(what string, ok func() bool) {
	p.Helper()
	if !eventually(p.Context(), patience, ok) {
		if p.report != nil {
			p.report()
		}
		p.Fatalf("not within %v: %s", patience, what)
	}
}

// eventually reports whether ok returned true within this time.
func eventually(ctx context.Context, within time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
