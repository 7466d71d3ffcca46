package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// defaultTimeout bounds a check without Site.Timeout.
const defaultTimeout = 10 * time.Second

// bounded returns a context with the deadline of one check.
func (s Site) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// clocked is a bucket that reports the time of its server.
type clocked interface {
	Time(ctx context.Context) (time.Time, error)
}

// bucket checks that the bucket of releases answers, that these credentials may list it and read an object, and its
// clock.
func (s Site) bucket(ctx context.Context) []Finding {
	if s.unread() {
		return nil
	}
	if s.Service.AWS.SignalsBucket == "" {
		return []Finding{{Result: OK, Detail: "weir.yaml names no bucket (aws.signals_bucket): only signals that ship with weir run"}}
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	b, err := signalbucket.Open(ctx, s.Service, s.Keys)
	if err != nil {
		return []Finding{failure(err, err.Error(), "correct the keys aws of weir.yaml")}
	}
	first, n, err := firstKeys(ctx, b)
	if err != nil {
		return []Finding{failure(err, err.Error(), bucketRemedy(err, "s3:ListBucket"))}
	}
	all := []Finding{s.readable(ctx, b, first, n)}
	if c, ok := b.(clocked); ok {
		all = append(all, bucketClock(ctx, b.URL(""), c))
	}
	return all
}

// firstKeys lists the beginning of the bucket. It returns the first key, and how many keys it has listed.
func firstKeys(ctx context.Context, b release.Bucket) (first string, n int, err error) {
	const enough = 1000 // one response
	for key, err := range b.List(ctx, "") {
		if err != nil {
			return "", 0, err
		}
		if n++; n == 1 {
			first = key
		}
		if n == enough {
			break
		}
	}
	return first, n, nil
}

// readable reads the first byte of an object.
func (s Site) readable(ctx context.Context, b release.Bucket, key string, n int) Finding {
	if n == 0 {
		return Finding{Result: Warned, Detail: b.URL("") + ": may be listed, and is empty",
			Fix: `publish a release ("weir release publish"), or correct aws.signals_bucket and aws.signals_prefix of weir.yaml`}
	}
	body, err := b.Get(ctx, key, 0)
	if err == nil {
		_, err = body.Read(make([]byte, 1))
		err = errors.Join(unlessEnd(err), body.Close())
	}
	if err != nil {
		return Finding{Result: Failed, Detail: err.Error(), Fix: bucketRemedy(err, "s3:GetObject")}
	}
	return Finding{Result: OK, Detail: b.URL("") + ": may be listed and read"}
}

// unlessEnd returns nil for the end of an object.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// bucketRemedy returns what to do about an error of the bucket. right is the one that the request needs.
func bucketRemedy(err error, right string) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "RequestTimeTooSkewed"):
		return clockFix
	case errors.Is(err, release.ErrNoBucket):
		return "create the bucket, or correct aws.signals_bucket and aws.region of weir.yaml"
	case errors.Is(err, release.ErrDenied):
		return "give the keys of this host the right " + right + " on the bucket, or correct aws.access_key_file of weir.yaml"
	case errors.Is(err, release.ErrUnavailable):
		return "check the network to the bucket and its endpoint (aws.endpoint_url of weir.yaml)"
	}
	return cmp.Or(awssdk.Remedy(err), "check the keys aws of weir.yaml")
}

func bucketClock(ctx context.Context, url string, c clocked) Finding {
	before := time.Now()
	server, err := c.Time(ctx)
	after := time.Now()
	if err != nil {
		return Finding{Result: Unknown, Detail: fmt.Sprintf("%s: its clock: %v", url, err), Fix: "check the network to the bucket"}
	}
	// The date has whole seconds, and servers renew it once a second, so it may be two seconds old.
	earliest := before.Add(-time.Second).Truncate(time.Second)
	return ofClock(url, bus.Skew(earliest, after, server), after.Sub(earliest))
}

// keys checks the trusted keys of releases.
func (s Site) keys(context.Context) []Finding {
	if s.unread() {
		return nil
	}
	trust, err := signalbucket.TrustOf(s.Service)
	switch {
	case err != nil:
		return []Finding{{Result: Failed, Detail: fmt.Sprintf("releases.trusted_keys of weir.yaml: %v", err),
			Fix: `replace the key with the line that "weir release keygen" prints`}}
	case trust.Required && len(trust.Keys) == 0:
		return []Finding{{Result: Failed, Detail: "weir.yaml requires signatures and trusts no key, so no release starts",
			Fix: "add the signers to releases.trusted_keys of weir.yaml"}}
	case s.Service.AWS.SignalsBucket == "", s.Keys != (signalbucket.Keys{}):
		return []Finding{{Result: OK, Detail: "only this host can publish releases for this pool"}}
	case s.Service.Releases.Layout == config.LayoutClusterman:
		return []Finding{{Result: Warned, Detail: "releases of layout " + config.LayoutClusterman + " have no signature: a writer of the bucket runs code on this host",
			Fix: "publish releases in layout " + config.LayoutWeir + ", with a key"}}
	case len(trust.Keys) == 0:
		return []Finding{{Result: Warned, Detail: "releases need no signature: a writer of the bucket runs code on this host",
			Fix: "set releases.trusted_keys of weir.yaml, and publish with --sign-key"}}
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("%d keys of signers are trusted", len(trust.Keys))}}
}
