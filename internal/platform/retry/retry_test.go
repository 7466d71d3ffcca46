package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errPasses = errors.New("busy")
	errStays  = errors.New("denied")
	errCause  = errors.New("the tick is over")
)

func passes(err error) bool { return errors.Is(err, errPasses) }

func TestDo(t *testing.T) {
	policy := Policy{First: time.Second, Longest: 4 * time.Second, MaxRequested: 10 * time.Second}
	for name, tc := range map[string]struct {
		policy          func(*Policy)
		limit           time.Duration   // of the context; 0: no limit
		requestedPauses []time.Duration // of the attempts; empty: no requested pause
		errs            []error         // of the attempts; the last one repeats
		want            []error
		attempts        int
		from, to        time.Duration // when it ends
	}{
		"at once":               {errs: []error{nil}, attempts: 1},
		"a failure that passes": {errs: []error{errPasses, nil}, attempts: 2, from: time.Second / 2, to: 3 * time.Second / 2},
		"a failure that stays":  {errs: []error{errPasses, errStays}, want: []error{errStays}, attempts: 2, from: time.Second / 2, to: 3 * time.Second / 2},
		"pauses grow up to the longest": {errs: []error{errPasses, errPasses, errPasses, errPasses, nil}, attempts: 5,
			from: 11 * time.Second / 2, to: 33 * time.Second / 2},
		"tries":        {policy: func(p *Policy) { p.Tries = 3 }, errs: []error{errPasses}, want: []error{errPasses}, attempts: 3, from: 3 * time.Second / 2, to: 9 * time.Second / 2},
		"a wish":       {requestedPauses: []time.Duration{7 * time.Second}, errs: []error{errPasses, nil}, attempts: 2, from: 7 * time.Second, to: 7 * time.Second},
		"a long wish":  {requestedPauses: []time.Duration{time.Hour}, errs: []error{errPasses, nil}, attempts: 2, from: 10 * time.Second, to: 10 * time.Second},
		"time is over": {policy: func(p *Policy) { p.For = 100 * time.Millisecond }, errs: []error{errPasses}, want: []error{errPasses}, attempts: 1},
		"the context ends": {limit: 100 * time.Millisecond, errs: []error{errPasses}, want: []error{errCause, errPasses}, attempts: 1,
			from: 0, to: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, ctx := policy, t.Context()
				if tc.policy != nil {
					tc.policy(&p)
				}
				if tc.limit > 0 {
					var cancel context.CancelCauseFunc
					ctx, cancel = context.WithCancelCause(ctx)
					defer cancel(nil)
					defer time.AfterFunc(tc.limit, func() { cancel(errCause) }).Stop()
				}
				began, attempts := time.Now(), 0
				err := p.Do(ctx, passes, func() (requested time.Duration, err error) {
					if attempts < len(tc.requestedPauses) {
						requested = tc.requestedPauses[attempts]
					}
					err = tc.errs[min(attempts, len(tc.errs)-1)]
					attempts++
					return requested, err
				})
				took := time.Since(began)
				if attempts != tc.attempts || took < tc.from || took > tc.to {
					t.Errorf("%d attempts in %v, want %d in %v to %v", attempts, took, tc.attempts, tc.from, tc.to)
				}
				if (err != nil) != (tc.want != nil) {
					t.Errorf("Do returns %v, want %v", err, tc.want)
				}
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("Do returns %v, want %v in it", err, want)
					}
				}
			})
		})
	}
}
