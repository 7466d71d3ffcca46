package bootstrapd

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

// TestKeysChange rotates the keys of a bucket in a file. The next request uses the new keys, and the watcher includes
// the file.
func TestKeysChange(t *testing.T) {
	server := s3test.Start(t, "releases")
	service := config.Service{AWS: config.AWS{
		Region: "us-east-1", EndpointURL: server.Endpoint, PathStyle: true, SignalsBucket: "releases",
	}}
	keys := signalbucket.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey}
	bucket, err := signalbucket.Open(t.Context(), service, keys)
	if err != nil {
		t.Fatal(err)
	}
	ref := release.Ref{Namespace: "shop", Name: "requests", Version: "v1.0.0"}
	program := filepath.Join(t.TempDir(), "requests")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := release.Publish(t.Context(), bucket, ref, release.Host(), release.Source{Path: program, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	write := func(access, secret string) {
		t.Helper()
		text, err := json.Marshal(map[string]string{"accessKeyId": access, "secretAccessKey": secret})
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	service.AWS.AccessKeyFile = file
	desired := Desired{service: service, Plan: bootstrap.Plan{Cluster: "local", Pool: "default"}}
	write(keys.Access, "another secret")
	log := slog.New(slog.DiscardHandler)
	r, err := openReleases(t.Context(), desired, t.TempDir(), nil, log, logProgress(log))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fetch(t.Context(), ref); !errors.Is(err, release.ErrDenied) {
		t.Errorf("fetch with a wrong secret: %v, want %v", err, release.ErrDenied)
	}
	write(keys.Access, keys.Secret)
	if err := r.follow(t.Context(), desired, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fetch(t.Context(), ref); err != nil {
		t.Errorf("fetch with the right secret: %v", err)
	}
	write("", "")
	if err := r.follow(t.Context(), desired, nil); err != nil {
		t.Fatal(err)
	}
	in, err := r.Fetch(t.Context(), ref)
	if err != nil || in.BucketErr == nil || !strings.Contains(in.BucketErr.Error(), "want a JSON object of accessKeyId and secretAccessKey") {
		t.Errorf("with a file of no keys: %v, away: %v; want the release of the cache, and why the bucket was not asked", err, in.BucketErr)
	}
	running := &api.Process{Signal: "shop/requests", Version: "v1.0.0", Candidate: &api.Process{Signal: "shop/requests", Version: "v9"}}
	look := func() string {
		t.Helper()
		r.refreshYanks(t.Context(), []release.Ref{ref})
		r.yanks.mark(running)
		return running.Yanked
	}
	write(keys.Access, keys.Secret)
	if why := look(); why != "" {
		t.Errorf("it is yanked: %s", why)
	}
	if _, err := release.Yank(t.Context(), bucket, ref, release.Host(), release.Yanked{Why: "it is wrong", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{keys.Secret, "another secret"} {
		write(keys.Access, secret)
		if why := look(); why != "it is wrong" || running.Candidate.Yanked != "" {
			t.Errorf("with secret %q it is yanked: %q, its candidate: %q", secret, why, running.Candidate.Yanked)
		}
	}
	watched := Process{Settings: daemon.Settings{Configs: "x", Cluster: "local", Pool: "default"}}.watched(service)
	if !strings.Contains(strings.Join(watched, " "), file) {
		t.Errorf("watched are %q: want %s among them", watched, file)
	}
}

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	os.Exit(m.Run())
}
