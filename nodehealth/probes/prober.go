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
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/weirkeeper/weirkeeper/internal/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	maxBody = 512 << 10 // bytes of an answer
	maxWhy  = 200       // bytes of what the network says
)

// Prober asks nodes by HTTP.
type Prober struct {
	config  Config
	healthy *regexp.Regexp
	client  *http.Client
	turn    atomic.Uint64 // where the next round begins
}

var _ nodehealth.Probe = (*Prober)(nil)

// New returns a Prober, or says what is wrong with its configuration.
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
func (p *Prober) Expand(names Names) (string, error) { return Expand(p.config.Options.PollURL, names) }

// sightKind is what one attempt came to.
type sightKind int

const (
	ours    sightKind = iota // our own trouble: nothing was seen
	healthy                  // the answer that was wanted
	sick                     // another answer
	broken                   // no answer, or none that can be used
)

// final: another attempt would tell nothing new.
func (k sightKind) final() bool { return k == ours || k == healthy }

// answered: the node itself has spoken.
func (k sightKind) answered() bool { return k == healthy || k == sick }

type sight struct {
	kind sightKind
	why  string
}

// judge says what the last attempt means.
func (p *Prober) judge(j *job) (judge.Verdict, string) {
	why := j.last.why
	if j.tried > 1 && j.last.kind != healthy {
		why = fmt.Sprintf("%s, in the last of %d attempts", why, j.tried)
	}
	switch {
	case j.last.kind == healthy:
		return judge.OK, why
	case j.last.kind == sick, j.last.kind == broken && *p.config.Options.PollErrorAsUnhealthy:
		return judge.Fail, why
	}
	return judge.Unknown, why
}

// look makes one attempt. Each one asks the next of the host's addresses.
func (p *Prober) look(ctx context.Context, j *job, scratch *bytes.Buffer) sight {
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
		return sight{ours, "its URL cannot be used"}
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
func (p *Prober) find(ctx context.Context, j *job) (sight, bool) {
	u, err := url.Parse(j.target.URL)
	if err != nil {
		return sight{ours, "its URL cannot be used"}, false
	}
	j.host.addrs, err = p.config.Allowed.Resolve(ctx, p.config.Resolve, u.Hostname())
	if err != nil {
		return sight{ours, short(err.Error())}, false
	}
	j.host.found = true
	return sight{}, true
}

// read looks at an answer, of which the body is put into the scratch.
func (p *Prober) read(answer *http.Response, scratch *bytes.Buffer) sight {
	tooLong := sight{broken, fmt.Sprintf("its answer is longer than %d KiB", maxBody>>10)}
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return sight{sick, fmt.Sprintf("it answers with status %d", answer.StatusCode)}
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
		return sight{sick, "its answer lacks " + short(p.config.Options.PollHealthyResponse)}
	}
	return sight{healthy, fmt.Sprintf("it answers with status %d", answer.StatusCode)}
}

// trouble says what an error of a request means.
func (p *Prober) trouble(err error) sight {
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, context.Canceled} {
		if errors.Is(err, own) {
			return sight{ours, "nothing can be asked from here: " + short(own.Error())}
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which the reader knows
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return sight{broken, fmt.Sprintf("no answer within %v", *p.config.Options.PollTimeout)}
	}
	return sight{broken, short(err.Error())}
}

// short bounds what others may have written, and leaves out what cannot be printed.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), maxWhy)])
	return strings.ToValidUTF8(text, "")
}
