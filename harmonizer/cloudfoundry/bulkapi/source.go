package bulkapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// slice is the number of rows in one event, so that heartbeats are processed in between.
const slice = 500

// Source is the expected state in a Cloud Controller. New makes it.
type Source struct {
	cfg        Config
	api        *caller
	footprints footprints
	log        *slog.Logger
	bad        rate.Sometimes // limits a log message
	refresh    chan struct{}
}

var _ harmonizer.Source = (*Source)(nil)

// New returns the source, or an error if the configuration is invalid. Zero values become
// defaults. If the configuration has no user, credentials are requested.
func New(cfg Config, requestCredentials Credentials, log *slog.Logger) (*Source, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bulk API: %w", err)
	}
	api, err := newCaller(cfg, requestCredentials)
	if err != nil {
		return nil, fmt.Errorf("bulk API: %w", err)
	}
	return &Source{cfg: cfg, api: api, footprints: newFootprints(cfg), log: log,
		bad: rate.Sometimes{Interval: time.Minute}, refresh: make(chan struct{}, 1)}, nil
}

// Refresh requests a pass that begins soon after now. Call it after the event about the change
// was sent. However often it is called, there is a pause between passes.
func (s *Source) Refresh() {
	select {
	case s.refresh <- struct{}{}:
	default: // a pass is already requested
	}
}

// Watch makes passes until ctx ends. It sends ExpectedBegin, then the rows and
// ExpectedComplete, or else ExpectedFailed. It returns nil.
func (s *Source) Watch(ctx context.Context, report harmonizer.Enqueue) error {
	defer s.api.http.CloseIdleConnections()
	for {
		select {
		case <-s.refresh: // this pass satisfies the request
		default:
		}
		began := time.Now()
		if err := s.pass(ctx, began, report); err != nil {
			return nil
		}
		if !s.rest(ctx, began) {
			return nil
		}
	}
}

// rest waits until the next pass is due. It returns false if ctx ended.
func (s *Source) rest(ctx context.Context, began time.Time) bool {
	earliest := time.Now().Add(s.cfg.RefreshPause)
	due := later(began.Add(s.cfg.ExpectedStateUpdate), earliest)
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	refresh := s.refresh
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-refresh:
			refresh = nil // the coming pass satisfies later requests
			soon := later(time.Now().Add(s.cfg.RefreshAfter), earliest)
			timer.Reset(min(time.Until(soon), time.Until(due)))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pass makes one complete pass. It returns only errors of report.
func (s *Source) pass(ctx context.Context, began time.Time, report harmonizer.Enqueue) error {
	if err := report(ctx, apps.ExpectedBegin{}); err != nil {
		return err
	}
	h, err := s.fetch(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.log.Warn("expected state not fetched", "err", err)
		return report(ctx, apps.ExpectedFailed{Why: err.Error()})
	}
	s.log.Debug("expected state fetched", "apps", len(h.rows), "unreadable", h.unreadableRows, "took", time.Since(began))
	if h.unreadableRows > 0 {
		s.bad.Do(func() { s.log.Warn("unreadable rows", "rows", h.unreadableRows, "first", h.problem) })
	}
	return s.report(ctx, h, began, report)
}

// report sends the rows of a complete pass. The pass is valid for a time from its beginning,
// which may be over.
func (s *Source) report(ctx context.Context, h *collected, began time.Time, report harmonizer.Enqueue) error {
	for first := 0; first < len(h.rows); first += slice {
		rows := h.rows[first:min(first+slice, len(h.rows))]
		if err := report(ctx, apps.ExpectedRows{Rows: rows}); err != nil {
			return err
		}
	}
	for _, name := range h.unreadable {
		if err := report(ctx, apps.ExpectedUnreadable{Name: name}); err != nil {
			return err
		}
	}
	left := s.cfg.ExpectedStateLost - time.Since(began)
	return report(ctx, apps.ExpectedComplete{ValidFor: max(left, 1)})
}

// fetch reads all pages. If the credentials were outdated, it starts again from the first
// page.
func (s *Source) fetch(ctx context.Context) (*collected, error) {
	lost := s.cfg.ExpectedStateLost
	ctx, cancel := context.WithTimeoutCause(ctx, lost, fmt.Errorf("the pass took longer than expected_state_lost (%v)", lost))
	defer cancel()
	h, err := s.pages(ctx)
	if errors.Is(err, errDenied) && s.api.mayHaveOthers() {
		h, err = s.pages(ctx)
	}
	return h, err
}

func (s *Source) pages(ctx context.Context) (*collected, error) {
	h := newCollected(s.footprints)
	for !h.done {
		err := s.api.getWithRetries(ctx, query{path: "bulk/apps", take: h.page, params: url.Values{
			"batch_size": {strconv.Itoa(s.cfg.BatchSize)}, "bulk_token": {h.token},
		}})
		if err != nil {
			return nil, fmt.Errorf("after %d apps: %w", len(h.rows), err)
		}
	}
	return h, nil
}
