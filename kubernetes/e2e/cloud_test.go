//go:build plane

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// cloud is the AWS of "weir-local aws", with one Auto Scaling group for each name.
type cloud struct {
	data, address string
	http          *http.Client
}

// instance is a machine, as the trial lists it.
type instance struct {
	ID, Owner, State string
	Market           struct{ Type, Zone string }
	Boots            int
}

// startCloud serves AWS until the test ends.
func startCloud(t *testing.T, groups []string, spot bool) *cloud {
	t.Helper()
	folder := t.TempDir()
	c := &cloud{data: filepath.Join(folder, "d"), address: fmt.Sprintf("127.0.0.1:%d", bustest.Ports(t, 1)[0])}
	text := "region: us-west-2\nboot: 1s\nleave: 5s\ngroups:\n"
	for i, g := range groups {
		text += fmt.Sprintf("  - {name: %s, tags: {\"weir:pool\": %s/%s}, min: 0, max: 20, desired: %d, types: [{name: m5.large}], spot: %t}\n", g, cluster, pool, max(0, 1-i), spot)
	}
	write(t, filepath.Join(folder, "aws.yaml"), text)
	run(t, "aws", []string{"WEIR_DATA=" + c.data}, program(t, "weir-local"), "aws", "serve", filepath.Join(folder, "aws.yaml"), "--addr", c.address)
	c.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.data, "aws.sock"))
	}}}
	if !eventually(t.Context(), patience, func() bool { _, err := c.instances(t.Context()); return err == nil }) {
		t.Fatal("AWS does not answer")
	}
	return c
}

// call sends a request over the socket of the trial.
func (c *cloud) call(ctx context.Context, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://trial/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(data))
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// instances returns all machines.
func (c *cloud) instances(ctx context.Context) (all []instance, err error) {
	var owners []struct{ Instances []instance }
	err = c.call(ctx, http.MethodGet, nil, &owners)
	for _, o := range owners {
		all = append(all, o.Instances...)
	}
	return all, err
}

// fault causes a fault of AWS.
func (c *cloud) fault(t *testing.T, name string, args ...string) {
	t.Helper()
	if err := c.call(t.Context(), http.MethodPost, map[string]any{"fault": name, "args": args}, nil); err != nil {
		t.Fatalf("fault %s %v: %v", name, args, err)
	}
}
