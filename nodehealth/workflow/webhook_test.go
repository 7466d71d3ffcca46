package workflow

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func webhookOf(url, secretFile string) judge.Action {
	return judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: kindWebhook, URL: url, SecretFile: secretFile, Input: map[string]string{"server": "{{ node.physicalid }}"}}}
}

func secretFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

const secret = "0123456789abcdef-of-a-test"

// verify checks a signature as a receiver does.
func verify(r *http.Request, body []byte) error {
	timestamp := r.Header.Get("Weir-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		return fmt.Errorf("timestamp %q", timestamp)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(r.Header.Get("Idempotency-Key") + "." + timestamp + "."))
	mac.Write(body)
	signature, ok := strings.CutPrefix(r.Header.Get("Weir-Signature"), "sha256=")
	got, err := hex.DecodeString(signature)
	if !ok || err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		return fmt.Errorf("signature %q", signature)
	}
	return nil
}

func TestWebhookIsSigned(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verify(r, body)
		}
		var got wireInput
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || r.Method != http.MethodPost || got.Params["server"] != "i-0a" || got.Attempt != "node-1.7" ||
			r.Header.Get("Idempotency-Key") != got.Attempt || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, fmt.Sprintf("%v: %+v %v", err, got, r.Header), http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"result": "ok", "reason": "ticket 7"}`)
	}))
	defer s.Close()
	r := New(loopback())
	wantResult(t, run(t, r, webhookOf(s.URL, secretFile(t, secret+"\n", 0o600))), nodehealth.DecisionOK, "ticket 7")
	wantResult(t, run(t, r, webhookOf(s.URL, secretFile(t, "another secret, as long", 0o600))), nodehealth.DecisionFailed, "status 403")
}

func TestWebhookResponses(t *testing.T) {
	reached := atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server detects a closed client only after that
		switch r.URL.Path {
		case "/text":
			fmt.Fprint(w, "<p>done")
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/skip":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"result": "skip", "reason": "under maintenance"}`)
		case "/large":
			fmt.Fprint(w, `{"result": "ok", "reason": "`)
			part := make([]byte, 1<<20)
			for range 200 {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		case "/away":
			http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
		case "/target":
			reached.Store(true)
		case "/mute":
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	r := New(loopback())
	wantResult(t, run(t, r, webhookOf(s.URL+"/text", "")), nodehealth.DecisionOK, "<p>done")
	wantResult(t, run(t, r, webhookOf(s.URL+"/empty", "")), nodehealth.DecisionOK, "")
	wantResult(t, run(t, r, webhookOf(s.URL+"/500", "")), nodehealth.DecisionFailed, "status 500")
	wantResult(t, run(t, r, webhookOf(s.URL+"/skip", "")), nodehealth.DecisionSkip, "under maintenance")
	wantResult(t, run(t, r, webhookOf(s.URL+"/large", "")), nodehealth.DecisionFailed, "longer than")
	if _, err := r.Run(t.Context(), webhookOf(s.URL+"/away", ""), someInput()); err == nil || reached.Load() {
		t.Errorf("a redirect: %v, followed: %t", err, reached.Load())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := r.Run(ctx, webhookOf(s.URL+"/mute", ""), someInput())
	if err != nil {
		t.Error(err)
	}
	wantResult(t, got, nodehealth.DecisionFailed, "did not end before its deadline")
}

func TestWebhookOutside(t *testing.T) {
	c := loopback()
	c.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	if _, err := New(c).Run(t.Context(), webhookOf("http://hook.example/", ""), someInput()); err == nil || !strings.Contains(err.Error(), "outside the allowed networks") {
		t.Errorf("Run = %v", err)
	}
}

func TestCheckWebhook(t *testing.T) {
	good := "http://127.0.0.1/"
	for _, test := range []struct {
		name       string
		config     Config
		action     judge.Action
		path, says string
	}{
		{"outside", loopback(), webhookOf("http://10.0.0.1/", ""), "params.url", "10.0.0.1 is outside the allowed networks: want one of 127.0.0.0/8"},
		{"no networks", Config{}, webhookOf(good, ""), "params.url", "no networks are allowed"},
		{"no host", loopback(), webhookOf("http:///x", ""), "params.url", "and a host"},
		{"password", loopback(), webhookOf("http://a:b@127.0.0.1/", ""), "params.url", "secret_file instead"},
		{"no secret", loopback(), webhookOf(good, "/does/not/exist"), "params.secret_file", "no such file"},
		{"open secret", loopback(), webhookOf(good, secretFile(t, secret, 0o644)), "params.secret_file", "has mode 0644: other users may read it, want 0600"},
		{"short secret", loopback(), webhookOf(good, secretFile(t, "abc\n", 0o600)), "params.secret_file", "has 3 bytes: want a secret of 16"},
		{"folder", loopback(), webhookOf(good, t.TempDir()), "params.secret_file", "is a folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := New(test.config).Check(test.action)
			p, ok := errors.AsType[*judge.Problem](err)
			if !ok || p.Path != test.path || !strings.Contains(p.What, test.says) {
				t.Errorf("Check = %v, want %s ...%s...", err, test.path, test.says)
			}
		})
	}
}

func requestOf(subject string) judge.Action {
	return judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: kindNATS, Subject: subject}}
}

// connected returns a connection to a new NATS server.
func connected(t *testing.T) *nats.Conn {
	t.Helper()
	return bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
}

func TestRequest(t *testing.T) {
	nc := connected(t)
	_, err := nc.Subscribe("heal.*", func(m *nats.Msg) {
		var got wireInput
		say := "{"
		switch err := json.Unmarshal(m.Data, &got); {
		case err != nil || m.Header.Get("Idempotency-Key") != "node-1.7" || got.Node != "node-1":
			say = fmt.Sprintf(`{"result": "failed", "reason": "%v"}`, err)
		case m.Subject == "heal.ok":
			say = `{"result": "ok"}`
		case m.Subject == "heal.empty":
			say = ""
		case m.Subject == "heal.large":
			say += strings.Repeat(" ", maxAnswer+1)
		case m.Subject == "heal.mute":
			return
		}
		_ = m.Respond([]byte(say))
	})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Conn: nc})
	wantResult(t, run(t, r, requestOf("heal.ok")), nodehealth.DecisionOK, "")
	wantResult(t, run(t, r, requestOf("heal.bad")), nodehealth.DecisionFailed, "decode the response")
	wantResult(t, run(t, r, requestOf("heal.empty")), nodehealth.DecisionFailed, "empty")
	wantResult(t, run(t, r, requestOf("heal.large")), nodehealth.DecisionFailed, "longer than")
	wantResult(t, run(t, r, requestOf("nobody.there")), nodehealth.DecisionFailed, "no service responds on nobody.there")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := r.Run(ctx, requestOf("heal.mute"), someInput())
	if err != nil {
		t.Error(err)
	}
	wantResult(t, got, nodehealth.DecisionFailed, "did not end before its deadline")
	for _, bad := range []string{"heal.*", "heal.>", "a b", ".a", "a..b", strings.Repeat("a", 300)} {
		if err := r.Check(requestOf(bad)); err == nil {
			t.Errorf("subject %q is accepted", bad)
		}
	}
	nc.Close()
	if _, err := r.Run(t.Context(), requestOf("heal.ok"), someInput()); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("Run on a closed connection = %v", err)
	}
}
