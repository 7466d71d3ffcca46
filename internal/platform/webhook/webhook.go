// Package webhook signs the requests that Weirkeeper sends to HTTP endpoints of its users. The receiver verifies that a
// request is genuine and recent: it computes the signature again with the shared secret.
//
//	secret, err := webhook.ReadSecret(file)
//	webhook.Sign(req.Header, time.Now(), secret, id, body)
//
// Secrets come from files that only their owner can read. The signature is the hexadecimal HMAC-SHA256 of ID.TIMESTAMP.BODY, the
// content that Standard Webhooks signs. The id is the one in the header of the request, by which a receiver drops a repetition.
// Everything is safe for concurrent use.
package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// Headers of a signed request.
const (
	HeaderTimestamp = "Weir-Timestamp" // Unix time in seconds
	HeaderSignature = "Weir-Signature" // sha256=HEX
)

const (
	minSecret = 16      // bytes
	maxSecret = 4 << 10 // bytes
)

// ReadSecret reads a file that only its owner may read.
func ReadSecret(file string) ([]byte, error) {
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
	case inputfile.ReadableByOthers(file, info.Mode()):
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

// Sign adds the timestamp, and the signature of it, of the id and of the body.
func Sign(h http.Header, now time.Time, secret []byte, id string, body []byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, "sha256="+hex.EncodeToString(mac.Sum(nil)))
}
