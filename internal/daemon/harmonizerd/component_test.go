package harmonizerd

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
)

// announcement is the part of a component's announcement that collectors read.
type announcement struct {
	Type        string   `json:"type"`
	Index       int      `json:"index"`
	UUID        string   `json:"uuid"`
	Host        string   `json:"host"`
	Credentials []string `json:"credentials"`
}

// announced runs a harmonizer on its own bus until the test ends. It returns the announcement and a connection.
func announced(t *testing.T, file config.Harmonizer) (announcement, *nats.Conn) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bustest.Streams(t, b.JetStream(), "test", 1, "default")
	sub, err := b.Conn().SubscribeSync("vcap.component.announce")
	if err != nil || b.Conn().Flush() != nil {
		t.Fatal(err)
	}
	p := Parts{Bus: b, File: file, Loop: file.Loop("test", []string{"default"}), Holder: "a", Data: t.TempDir(), Log: log}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Run(ctx, admin.Config{Daemon: config.DaemonHarmonizer, Flag: "127.0.0.1:0", Out: io.Discard, Log: log})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	m, err := sub.NextMsg(await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var a announcement
	if err := json.Unmarshal(m.Data, &a); err != nil {
		t.Fatal(err)
	}
	return a, b.Conn()
}

// TestFileIsAnnounced runs a harmonizer with the index and the credentials in its file.
func TestFileIsAnnounced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "health_manager.yml")
	if err := os.WriteFile(path, []byte("index: 2\nlease: 3s\nstatus: {port: 0, user: u, password: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, _, err := config.ReadHarmonizer(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := announced(t, file)
	if !cmp.Equal(a.Credentials, []string{"u", "p"}) {
		t.Errorf("announced the credentials %q, want those of the file", a.Credentials)
	}
	if code, _ := get(t, a.Host, "/varz", "u", "p"); code != http.StatusOK {
		t.Errorf("/varz with the credentials of the file: %d", code)
	}
	if a.Type != "HealthManager" || a.Index != 2 || !strings.HasPrefix(a.UUID, "2-") {
		t.Errorf("announced %+v, want index 2", a)
	}
}

// TestCollectorReadsVarz acts as a collector: it reads address, user and password from the announcement, then
// /healthz and /varz.
func TestCollectorReadsVarz(t *testing.T) {
	file, _, err := config.LoadHarmonizer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, conn := announced(t, file)
	if len(a.Credentials) != 2 || a.Credentials[0] == "" || a.Credentials[1] == "" {
		t.Fatalf("announced the credentials %q, want user and password", a.Credentials)
	}
	user, password := a.Credentials[0], a.Credentials[1]
	for _, tt := range []struct {
		path, user, password string
		code                 int
		body                 string // beginning of the body
	}{
		{"/healthz", user, password, http.StatusOK, "ok\n"},
		{"/varz", user, password, http.StatusOK, "{\n  \"type\": \"HealthManager\","},
		{"/varz", user, "wrong", http.StatusUnauthorized, "want the user and password"},
		{"/varz", "wrong", password, http.StatusUnauthorized, "want the user and password"},
		{"/varz", "", "", http.StatusUnauthorized, "want the user and password"},
		{"/healthz", "", "", http.StatusOK, "ok\n"},
		{"/readyz", "", "", http.StatusOK, "ready\n"},
		{"/metrics", "", "", http.StatusOK, "# HELP "},
		{"/other", user, password, http.StatusNotFound, ""},
	} {
		code, body := get(t, a.Host, tt.path, tt.user, tt.password)
		if code != tt.code || !strings.HasPrefix(body, tt.body) {
			t.Errorf("%s as %q: %d %.80q, want %d %q", tt.path, tt.user, code, body, tt.code, tt.body)
		}
	}

	for _, m := range []struct{ subject, data string }{
		{"weir.test.heartbeat.p.n1", `{"dea":"n1","droplets":[]}`},
		{"dea.heartbeat", `{"dea":"n2","droplets":[]}`}, // dropped: legacy_deas is not set
		{"weir.test.exited.p.n1", `{"droplet":"web","version":"v1","instance":"i","index":0,"reason":"CRASHED"}`},
		{"healthmanager.health", `{"droplets":[]}`},
	} {
		if err := conn.PublishRequest(m.subject, "answer", []byte(m.data)); err != nil {
			t.Fatal(err)
		}
	}
	var v map[string]any
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		_, body := get(t, a.Host, "/varz", user, password)
		v = nil
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if v["heartbeat_msgs_received"] == 1.0 && v["droplet_exited_msgs_received"] == 1.0 && v["healthmanager_health_request_msgs_received"] == 1.0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("messages are not counted: %v", v)
		}
	}
	for key, want := range map[string]any{
		"state": "RUNNING", "index": 0.0, "uuid": a.UUID, "host": a.Host, "credentials": []any{user, password},
		"total_apps": 0.0, "total_users": 0.0, "queue_length": 0.0, "health_start_messages_sent": 0.0, "log_counts": map[string]any{},
	} {
		if got, ok := v[key]; !ok || !cmp.Equal(got, want) {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	for _, key := range []string{"num_cores", "mem_bytes", "mem_used_bytes", "mem_free_bytes"} {
		if n, _ := v[key].(float64); n <= 0 {
			t.Errorf("%s is %v, want more than 0", key, v[key])
		}
	}
	for _, key := range []string{"start", "uptime", "cpu", "cpu_load_avg", "running", "total", "analysis_loop_duration", "bulk_update_loop_duration"} {
		if v[key] == nil {
			t.Errorf("%s is missing", key)
		}
	}
}

// A harmonizer that cannot work is not ready, with the reason. Only one that does not answer is dead.
func TestLeadership(t *testing.T) {
	since := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		status api.HarmonizerStatus
		err    error
		state  admin.State
		dead   bool
		detail string
	}{
		{"it leads", api.HarmonizerStatus{Leading: true, Complete: true, Epoch: 7}, nil, admin.OK, false, "leads, epoch 7"},
		{"incomplete", api.HarmonizerStatus{Leading: true, Epoch: 7, Why: "no bulk API"}, nil, admin.Degraded, false, "leads, epoch 7, but stops nothing: no bulk API"},
		{"another one leads", api.HarmonizerStatus{Leader: "b"}, nil, admin.Standby, false, "another harmonizer leads: b"},
		{"no leader", api.HarmonizerStatus{NoLeader: since}, nil, admin.Failed, false,
			"no harmonizer leads since 2031-02-03T04:05:06Z: nothing is started or stopped; check NATS and its JetStream"},
		{"full storage", api.HarmonizerStatus{Leading: true, Unwritten: since}, nil, admin.Failed, false,
			"the harmonizer cannot save its state since 2031-02-03T04:05:06Z: starts continue, stops wait; check JetStream's storage"},
		{"no answer", api.HarmonizerStatus{}, context.DeadlineExceeded, admin.Failed, true, "the harmonizer does not answer: context deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := leadership(func(context.Context, api.HarmonizerQuery) (api.HarmonizerStatus, error) { return tt.status, tt.err }).Read(t.Context())
			if r.State != tt.state || r.Dead != tt.dead || r.Detail != tt.detail {
				t.Errorf("leadership = %+v, want %v, dead %t, %q", r, tt.state, tt.dead, tt.detail)
			}
		})
	}
}

// get requests a path of a component as that user; without a user it sends no credentials.
func get(t *testing.T, host, path, user, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// Without its data folder a harmonizer would not find damaged rows: it does not start. One in
// shadow mode stops nothing, so it needs no folder.
func TestDataFolderIsRequired(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	bustest.Streams(t, b.JetStream(), "test", 1, "default")
	file, _, err := config.LoadHarmonizer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Parts{Bus: b, File: file, Loop: file.Loop("test", []string{"default"}), Holder: "a", Log: log}
	if _, err := p.Wire(t.Context()); err == nil || !strings.Contains(err.Error(), "Parts.Data is empty") {
		t.Errorf("Wire without a data folder = %v, want an error that names Parts.Data", err)
	}
	p.Loop.Shadow = true
	if _, err := p.Wire(t.Context()); err != nil {
		t.Errorf("Wire in shadow mode = %v", err)
	}
}
