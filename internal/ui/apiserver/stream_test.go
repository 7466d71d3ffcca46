package apiserver

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tokenWorld is a server whose tokens change.
type tokenWorld struct {
	*testing.T
	url    string
	tokens atomic.Pointer[[]Token]
}

func newTokenWorld(t *testing.T, tokens ...Token) *tokenWorld {
	w := &tokenWorld{T: t}
	w.tokens.Store(&tokens)
	h := New(Config{
		Own: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, Log: slog.New(slog.DiscardHandler), Cluster: "here", Live: NewLive(time.Now()),
		Tokens: func() ([]Token, error) { return *w.tokens.Load(), nil },
	})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// do sends a request, and returns the status and the body, which is open.
func (w *tokenWorld) do(method, path, secret string) (int, io.ReadCloser) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, w.url+Prefix+path, strings.NewReader("{}"))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { answer.Body.Close() })
	return answer.StatusCode, answer.Body
}

const otherSecret = "other-secret-0123456789"

// One token opens as many streams as it may. Other tokens still read events, and an operator still gives orders.
func TestStreamsOfOneTokenAreBounded(t *testing.T) {
	w := newTokenWorld(t, Token{Viewer, "vic", viewerSecret}, Token{Operator, "op", otherSecret})
	for i := range maxOfToken {
		if status, _ := w.do("GET", "/events", viewerSecret); status != http.StatusOK {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	status, body := w.do("GET", "/events", viewerSecret)
	if text, _ := io.ReadAll(body); status != http.StatusTooManyRequests || !strings.Contains(string(text), "64 open streams") {
		t.Errorf("one stream more: %d %s", status, text)
	}
	if status, _ := w.do("GET", "/events", otherSecret); status != http.StatusOK {
		t.Errorf("a stream of another token: %d", status)
	}
	if status, _ := w.do("POST", "/pools/other/web/pause", otherSecret); status != http.StatusNotFound {
		t.Errorf("an order about a cluster that is not served: %d, want 404", status)
	}
}

// A removed token ends its streams within 2 s. The streams of other tokens stay.
func TestRemovedTokenEndsItsStreams(t *testing.T) {
	w := newTokenWorld(t, Token{Viewer, "vic", viewerSecret}, Token{Operator, "op", otherSecret})
	_, removed := w.do("GET", "/events", viewerSecret)
	_, stays := w.do("GET", "/events", otherSecret)
	began := time.Now()
	w.tokens.Store(&[]Token{{Operator, "op", otherSecret}})
	if _, err := io.ReadAll(removed); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the stream ended after %v, want 2 s", took)
	}
	if line, err := bufio.NewReader(stays).ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
		t.Errorf("the other stream: %q, %v", line, err)
	}
}
