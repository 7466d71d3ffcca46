package workflow

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	headerTime      = "Weir-Timestamp"
	headerSignature = "Weir-Signature"

	minSecret = 16      // bytes
	maxSecret = 4 << 10 // bytes
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

// readSecret reads a file that only its owner may read.
func readSecret(file string) ([]byte, error) {
	f, err := inputfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", file)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o: other users may read it, want 0600", file, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(data)
	if len(secret) < minSecret || len(data) > maxSecret {
		return nil, fmt.Errorf("%s has %d bytes: want a secret of %d to %d", file, len(secret), minSecret, maxSecret)
	}
	return secret, nil
}

// sign returns the signature of a body and its timestamp.
func sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
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
		secret, err := readSecret(p.SecretFile)
		if err != nil {
			return nodehealth.Result{}, fmt.Errorf("sign: %w", err)
		}
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(headerTime, timestamp)
		req.Header.Set(headerSignature, sign(secret, timestamp, body))
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
