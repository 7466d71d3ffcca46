package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// The methods below run between two ticks. Each returns an error only if the process must end.

// Repair implements pools.Writer. The owner handles the request between two ticks.
func (w *Writer) Repair(ctx context.Context, r pools.RepairRequest) error {
	if r.Node == "" || r.Attempt == "" || len(r.Attempt) > maxAttempt || r.Deadline.IsZero() {
		return fmt.Errorf("repair %q of node %q by %v: want an attempt of at most %d bytes, a node and a deadline", r.Attempt, r.Node, r.Deadline, maxAttempt)
	}
	r.Why = decide.OneLine(r.Why)
	if err := w.requests.repair(ctx, r, false); err != nil {
		return fmt.Errorf("repair %s of node %s: %w", r.Attempt, r.Node, err)
	}
	return nil
}

// Withdraw implements pools.Writer. The owner handles the request between two ticks, after earlier
// requests.
func (w *Writer) Withdraw(ctx context.Context, attempt string) error {
	if attempt == "" {
		return errors.New("withdraw a repair: want the name of its attempt")
	}
	return w.requests.repair(ctx, pools.RepairRequest{Attempt: attempt}, true)
}

// Requests returns the waiting repair requests. Each is for Serve.
func (w *Writer) Requests() <-chan Request { return w.requests.queue }

// Serve begins the repair of the first request and of all waiting ones, and responds to their
// callers.
func (w *Writer) Serve(ctx context.Context, now time.Time, first Request, r *Report) error {
	waiting := w.requests.batch(first)
	waiting, err := w.withdraw(ctx, now, waiting)
	if len(waiting) == 0 {
		return err
	}
	answers, err := w.repair(ctx, now, waiting, r)
	for i, one := range waiting {
		if answers == nil {
			one.answer <- err
		} else {
			one.answer <- answers[i]
		}
	}
	if err == nil && slices.Contains(answers, nil) {
		err = w.proceed(ctx, now, w.Latest(), r)
	}
	if err != nil {
		w.log.Error("begin repairs failed", "pool", w.config.Pool, "repairs", len(waiting), "err", err)
	}
	return fatal(err)
}

// withdraw handles the requests to withdraw a repair. It returns the others, without the withdrawn
// ones. It calls no provider, so a pause of the pool does not matter.
func (w *Writer) withdraw(ctx context.Context, now time.Time, waiting []Request) ([]Request, error) {
	withdrawn := map[string]bool{}
	for _, one := range waiting {
		withdrawn[one.Attempt] = withdrawn[one.Attempt] || one.withdraw
	}
	var rest []Request
	for _, one := range waiting {
		switch {
		case one.withdraw:
			err := w.guard.check()
			if err == nil {
				err = w.Open(ctx)
			}
			if err == nil {
				err = w.drains.withdraw(ctx, now, one.Attempt)
			}
			one.answer <- err
			if fatal(err) != nil {
				return nil, fatal(err)
			}
		case withdrawn[one.Attempt]:
			one.answer <- fmt.Errorf("%w: the repair was withdrawn", pools.ErrRefused)
		default:
			rest = append(rest, one)
		}
	}
	return rest, nil
}

// repair begins the repairs, and returns the response to each request. If there are no responses,
// the error applies to all.
func (w *Writer) repair(ctx context.Context, now time.Time, requests []Request, r *Report) ([]error, error) {
	s, err := w.prepare(ctx, now)
	if err != nil {
		return nil, err
	}
	if w.journal.configured.holdsRepairs() {
		return nil, fmt.Errorf("no repair begins: %s", w.ConfigurationHold().Why)
	}
	choices, answers := w.poolState(s).repairs(now, requests)
	begun, err := w.choose(ctx, now, choices, r)
	if err != nil {
		return nil, err
	}
	for i, err := range begun {
		answers[i] = cmp.Or(answers[i], err)
	}
	return answers, nil
}

// choose saves the intent, and begins the drain or repair of each choice with a node. It returns
// the result of each, and an error if nothing began or the process must end.
func (w *Writer) choose(ctx context.Context, now time.Time, choices []drain.Choice, r *Report) ([]error, error) {
	intent := Intent{At: now}
	for _, c := range choices {
		if c.Node != "" && c.RepairInPlace == nil {
			intent.Remove = append(intent.Remove, c.Node)
		}
	}
	if err := w.save(ctx, w.journal.state, &intent); err != nil {
		return nil, err
	}
	results := make([]error, len(choices))
	for i, c := range choices {
		if c.Node == "" {
			continue
		}
		results[i] = w.drains.choose(ctx, now, c, r)
		if err := fatal(results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// prepare reads the pool for a change between two ticks. While an operator pauses the pool, the
// error is pools.ErrPaused.
func (w *Writer) prepare(ctx context.Context, now time.Time) (*snapshot.Snapshot, error) {
	if err := w.guard.check(); err != nil {
		return nil, err
	}
	orders, err := w.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	if w.paused = orders.Pause != nil; w.paused {
		return nil, pools.AllowOrders(orders, now)
	}
	reading, err := w.Read(ctx, now)
	if err != nil {
		return nil, err
	}
	w.Adopt(reading)
	return reading.Snapshot, nil
}

// maxNotices is the maximum number of notices that are handled at once.
const maxNotices = 256

// Notices returns the notices of the provider, each for HandleNotices. While the pool is paused
// they wait. In a dry run another process handles them.
func (w *Writer) Notices() <-chan pools.Notice {
	if w.paused || w.config.DryRun {
		return nil
	}
	return w.ports.Notices
}

// HandleNotices drains the nodes of the first notice and of all waiting ones. If a drain cannot be
// saved now, its notice is sent again.
func (w *Writer) HandleNotices(ctx context.Context, now time.Time, first pools.Notice, r *Report) error {
	waiting := append([]pools.Notice{first}, ready(w.ports.Notices, maxNotices-1)...)
	err := w.warned(ctx, now, waiting, r)
	for _, a := range r.Actions {
		w.log.Info("notice handled", "pool", w.config.Pool, "op", a.Op, "group", a.Group, "node", a.Node, "what", a.What, "err", a.Error)
	}
	if err != nil {
		w.log.Error("handle notices failed", "pool", w.config.Pool, "notices", len(waiting), "err", err)
	}
	return fatal(err)
}

// warned begins the drains and advances them as far as possible. It marks the notices as done whose
// drain is saved, or whose instance does not exist.
func (w *Writer) warned(ctx context.Context, now time.Time, notices []pools.Notice, r *Report) error {
	s, err := w.prepare(ctx, now)
	if errors.Is(err, pools.ErrPaused) {
		return nil
	}
	if err != nil {
		return err
	}
	notices, choices := w.poolState(s).warnings(notices)
	results, err := w.choose(ctx, now, choices, r)
	if err != nil {
		return err
	}
	for i, n := range notices {
		if results[i] == nil && n.Done != nil {
			n.Done()
		}
	}
	return w.proceed(ctx, now, s, r)
}

// TendEvery is the time between two advances of the drains between ticks.
const TendEvery = 5 * time.Second

// Tending reports whether Tend is due after TendEvery. It is not if there is no drain, or if the next tick comes soon
// enough.
func (w *Writer) Tending() bool {
	return !w.paused && !w.config.DryRun && w.config.Tick >= 2*TendEvery && w.drains.ready() &&
		!w.config.outdated(w.Latest(), w.ports.Now()) && len(w.drains.records()) > 0
}

// outdated reports whether a snapshot is too old for further changes, for example after ticks that
// could not read the provider.
func (c Config) outdated(s *snapshot.Snapshot, now time.Time) bool {
	return s == nil || now.Sub(s.At) > max(2*c.Tick, time.Minute)
}

// Tend advances the drains by the newest reports of the nodes. It does not read the provider: it
// uses the latest snapshot, and the provider checks each instance before it ends it. If no drain
// would move, it reads no orders and saves nothing.
func (w *Writer) Tend(ctx context.Context, now time.Time, r *Report) error {
	err := w.tend(ctx, now, r)
	for _, problem := range r.Problems {
		w.log.Warn("drain problem between two ticks", "pool", w.config.Pool, "err", problem)
	}
	if err != nil {
		w.log.Error("advance drains failed", "pool", w.config.Pool, "err", err)
	}
	return fatal(err)
}

func (w *Writer) tend(ctx context.Context, now time.Time, r *Report) error {
	if w.config.outdated(w.Latest(), now) {
		return nil
	}
	facts := w.ports.Scheduler.Facts(now)
	if w.drains.idle(now, w.poolState(w.Latest().Refresh(facts, w.drains.records().needed())).nodeSnapshots(facts)) {
		return nil
	}
	if err := w.guard.check(); err != nil {
		return err
	}
	orders, err := w.Begin(ctx, now)
	if w.paused = w.paused || orders.Pause != nil; w.paused || err != nil {
		return err
	}
	s := w.Latest().Refresh(facts, w.drains.records().needed()) // Begin may have read other records
	if err := w.save(ctx, w.journal.state, &Intent{At: now}); err != nil {
		return err
	}
	return w.proceed(ctx, now, s, r)
}

// proceed advances the drains, and saves the outcome.
func (w *Writer) proceed(ctx context.Context, now time.Time, s *snapshot.Snapshot, r *Report) error {
	return w.conclude(ctx, w.advance(ctx, now, s, r))
}
