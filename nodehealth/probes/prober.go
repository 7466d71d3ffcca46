package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const (
	maxBody = 512 << 10 // bytes of a response
	maxWhy  = 200       // bytes of a network error
)

// Prober checks nodes by HTTP.
type Prober struct {
	config  Config
	healthy *regexp.Regexp
	client  *http.Client
	turn    atomic.Uint64 // index of the first target of the next round
}

var _ nodehealth.Probe = (*Prober)(nil)

// New returns a Prober, or an error if the configuration is invalid.
func New(c Config) (*Prober, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Resolve == nil {
		c.Resolve = netguard.System
	}
	return &Prober{
		config: c, healthy: regexp.MustCompile(c.Options.PollHealthyResponse),
		client: &http.Client{Transport: netguard.NewTransport(*c.Options.PollVerify), CheckRedirect: netguard.SameHost},
	}, nil
}

// Expand returns the URL of one node.
func (p *Prober) Expand(names Names) (string, error) {
	return expandURL(p.config.Options.PollURL, names)
}

// attemptKind is the kind of result of one attempt.
type attemptKind int

const (
	localProblem attemptKind = iota // a problem on our side: no result
	healthy                         // the expected response
	badResponse                     // another response
	broken                          // no response, or an unusable one
)

// final reports whether another attempt would not change the result.
func (k attemptKind) final() bool { return k == localProblem || k == healthy }

// answered reports whether the node itself responded.
func (k attemptKind) answered() bool { return k == healthy || k == badResponse }

type attemptResult struct {
	kind attemptKind
	why  string
}

// judge returns the verdict from the last attempt.
func (p *Prober) judge(j *job) (api.HealthVerdict, string) {
	why := j.last.why
	if j.tried > 1 && j.last.kind != healthy {
		why = fmt.Sprintf("%s, in the last of %d attempts", why, j.tried)
	}
	switch {
	case j.last.kind == healthy:
		return api.CheckOK, why
	case j.last.kind == badResponse, j.last.kind == broken && *p.config.Options.PollErrorAsUnhealthy:
		return api.CheckFail, why
	}
	return api.CheckUnknown, why
}

// attempt makes one attempt. Each attempt uses the next address of the host.
func (p *Prober) attempt(ctx context.Context, j *job, scratch *bytes.Buffer) attemptResult {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*p.config.Options.PollTimeout))
	defer cancel()
	if !j.host.found {
		if seen, ok := p.find(ctx, j); !ok {
			return seen
		}
	}
	ctx = netguard.Pin(ctx, j.host.addrs[j.tried%len(j.host.addrs)])
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.target.URL, nil)
	if err != nil {
		return attemptResult{localProblem, "invalid URL"}
	}
	req.Header.Set("User-Agent", "weirkeeper")
	answer, err := p.client.Do(req)
	if err != nil {
		return p.trouble(err)
	}
	defer answer.Body.Close()
	return p.read(answer, scratch)
}

// find resolves the host, once a round.
func (p *Prober) find(ctx context.Context, j *job) (attemptResult, bool) {
	u, err := url.Parse(j.target.URL)
	if err != nil {
		return attemptResult{localProblem, "invalid URL"}, false
	}
	j.host.addrs, err = p.config.Allowed.Resolve(ctx, p.config.Resolve, u.Hostname())
	if err != nil {
		return attemptResult{localProblem, prose.Line(err.Error(), maxWhy)}, false
	}
	j.host.found = true
	return attemptResult{}, true
}

// read evaluates a response. scratch holds its body.
func (p *Prober) read(answer *http.Response, scratch *bytes.Buffer) attemptResult {
	tooLong := attemptResult{broken, fmt.Sprintf("the response is longer than %d KiB", maxBody>>10)}
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return attemptResult{badResponse, fmt.Sprintf("response status %d", answer.StatusCode)}
	case answer.ContentLength > maxBody:
		return tooLong
	}
	scratch.Reset()
	_, err := scratch.ReadFrom(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return p.trouble(err)
	case scratch.Len() > maxBody:
		return tooLong
	case !p.healthy.Match(scratch.Bytes()):
		return attemptResult{badResponse, "no match in the response for " + prose.Line(p.config.Options.PollHealthyResponse, maxWhy)}
	}
	return attemptResult{healthy, fmt.Sprintf("response status %d", answer.StatusCode)}
}

// trouble classifies the error of a request.
func (p *Prober) trouble(err error) attemptResult {
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, context.Canceled} {
		if errors.Is(err, own) {
			return attemptResult{localProblem, "no request possible from this host: " + prose.Line(own.Error(), maxWhy)}
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which is in the policy
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return attemptResult{broken, fmt.Sprintf("no response within %v", *p.config.Options.PollTimeout)}
	}
	return attemptResult{broken, prose.Line(err.Error(), maxWhy)}
}
