package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The production binary has no S3 gateway, no time series database and no NATS server.
// Only weir-local has them.
func TestWeirLinksNoLocalWorld(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, out)
	}
	for name := range strings.Lines(string(out)) {
		for _, prefix := range []string{"github.com/versity/versitygw", "github.com/prometheus/prometheus", "github.com/nats-io/nats-server"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("weir links %s, which only weir-local may", strings.TrimSpace(name))
			}
		}
	}
}
