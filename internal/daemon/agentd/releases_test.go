package agentd_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	os.Exit(m.Run())
}

// The files of a release are fetched from a real bucket and verified. A wrong digest is an error, and leaves nothing.
func TestReleasesAreFetchedAndVerified(t *testing.T) {
	server := s3test.Start(t, "releases")
	service := config.Service{AWS: config.AWS{Region: "us-east-1", EndpointURL: server.Endpoint, PathStyle: true, SignalsBucket: "releases"}}
	bucket, err := signalbucket.Open(t.Context(), service, signalbucket.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	for name, mode := range map[string]os.FileMode{"serve": 0o700, "data": 0o600} {
		if err := os.WriteFile(filepath.Join(source, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(version string) (ref release.Ref, m release.Manifest) {
		t.Helper()
		ref = release.Ref{Namespace: "shop", Name: "web", Version: version}
		m, err := release.Publish(t.Context(), bucket, ref, release.Host(), release.Source{Path: source, Entry: "serve", Created: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return ref, m
	}
	good, _ := publish("v1.0.0")
	if err := os.WriteFile(filepath.Join(source, "data"), []byte("other content\n"), 0o600); err != nil { // another archive
		t.Fatal(err)
	}
	bad, manifest := publish("v1.1.0+bad")
	configs, data := t.TempDir(), t.TempDir()
	text := fmt.Sprintf("aws: {region: us-east-1, signals_bucket: releases, endpoint_url: %q, path_style: true}\n", server.Endpoint)
	if err := os.WriteFile(filepath.Join(configs, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	releases := &agentd.Releases{Configs: configs, Data: data, Owner: "agent.c.n1", Log: slog.New(slog.DiscardHandler)}
	both := func() []release.Ref { return []release.Ref{good, bad} }

	dir, err := releases.Fetch(t.Context(), good, both)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "serve")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("serve in %s: %v, want an executable", dir, err)
	}
	// Files that were changed on the machine are fetched again.
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "data")
	if err := errors.Join(os.Chmod(damaged, 0o600), os.WriteFile(damaged, []byte("changed"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if dir, err = releases.Fetch(t.Context(), good, both); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "data")); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("data = %q, %v, want the published content", text, err)
	}
	// An archive of another content is refused.
	key := fmt.Sprintf("shop/web/v1.1.0+bad/%s/sha256-%s.tar.gz", release.Host(), manifest.Object.SHA256)
	archive, err := os.ReadFile(server.Path("releases", key))
	if err != nil {
		t.Fatal(err)
	}
	archive[len(archive)/2] ^= 1
	if err := os.WriteFile(server.Path("releases", key), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if dir, err := releases.Fetch(t.Context(), bad, both); !errors.Is(err, release.ErrCorrupt) || !strings.Contains(err.Error(), "shop/web@v1.1.0+bad") {
		t.Errorf("fetch of a wrong digest = %q, %v, want %v", dir, err, release.ErrCorrupt)
	}
	missing := release.Ref{Namespace: "shop", Name: "web", Version: "v9"}
	if _, err := releases.Fetch(t.Context(), missing, both); !errors.Is(err, release.ErrNotFound) {
		t.Errorf("fetch of a missing release: %v, want %v", err, release.ErrNotFound)
	}
}

// Without a bucket in weir.yaml, the error names the key.
func TestReleaseWithoutABucket(t *testing.T) {
	releases := &agentd.Releases{Configs: t.TempDir(), Data: t.TempDir(), Owner: "agent.c.n1", Log: slog.New(slog.DiscardHandler)}
	_, err := releases.Fetch(t.Context(), release.Ref{Namespace: "shop", Name: "web", Version: "v1"}, func() []release.Ref { return nil })
	if !errors.Is(err, signalbucket.ErrNoBucket) || !strings.Contains(err.Error(), "aws.signals_bucket") {
		t.Errorf("fetch = %v, want the missing key", err)
	}
}
