package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func (r *Runner) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("is %.100q: want a URL with http or https and a host", text)
	case u.User != nil:
		return errors.New("has a user name: sign with a secret_file instead")
	case len(r.config.Allowed) == 0:
		return errors.New("no networks are allowed: add its network to allowed_networks")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !r.config.Allowed.Allows(addr) {
		return fmt.Errorf("%v %w: want one of %v", addr, netguard.ErrOutside, r.config.Allowed)
	}
	return nil
}

func (r *Runner) webhook(ctx context.Context, p judge.Params, attempt string, body []byte) (nodehealth.Result, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return nodehealth.Result{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weirkeeper")
	req.Header.Set(headerKey, attempt)
	if p.SecretFile != "" {
		secret, err := webhook.ReadSecret(p.SecretFile)
		if err != nil {
			return nodehealth.Result{}, fmt.Errorf("sign: %w", err)
		}
		webhook.Sign(req.Header, time.Now(), secret, attempt, body)
	}
	addrs, err := r.config.Allowed.Resolve(ctx, r.config.Resolve, req.URL.Hostname())
	if err != nil {
		return nodehealth.Result{}, err
	}
	return r.post(req.WithContext(netguard.Pin(ctx, addrs[0])))
}

func (r *Runner) post(req *http.Request) (nodehealth.Result, error) {
	got, err := r.client.Do(req)
	if err != nil {
		return nodehealth.Result{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if err != nil {
		return nodehealth.Result{}, fmt.Errorf("read the response: %w", err)
	}
	output := response{text: text, cut: len(text) > maxAnswer}
	if got.StatusCode < 200 || got.StatusCode > 299 {
		output.failure = "response status " + strconv.Itoa(got.StatusCode)
	}
	return output.result(), nil
}
