package notifyd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// findings is the position in the stream of findings. Each stored finding is passed on once, in order, also those of the
// time in which no process ran. Without the stream, live findings are passed on, and those of that time are lost.
type findings struct {
	file   string
	last   *position // of the newest finding that was passed on; nil: the present is the beginning
	stored bool      // the stream exists, and this user may read it
	due    bool      // the stream may have new ones
}

// position is a place in the stream of findings. A stream that was lost and created again has other sequence numbers: there
// the time is the place.
type position struct {
	Created  time.Time `json:"created"` // of the stream
	Sequence uint64    `json:"sequence"`
	At       time.Time `json:"at"`
}

// load reads the position. A damaged file is set aside, and the present is the beginning.
func (p *findings) load(log *slog.Logger) error {
	p.due = true
	data, err := os.ReadFile(p.file)
	if err == nil {
		if err = json.Unmarshal(data, &p.last); err == nil {
			return nil
		}
		aside, failed := wholefile.SetAside(p.file, time.Now())
		log.Warn("position in the findings is damaged, set aside", "file", aside, "err", errors.Join(err, failed))
		p.last, err = nil, failed
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the position in the findings: %w", err)
	}
	return nil
}

func (p *findings) save(at position) error {
	data, err := json.Marshal(at)
	if err == nil {
		err = wholefile.Write(p.file, data)
	}
	if err != nil {
		return fmt.Errorf("store the position in the findings: %w", err)
	}
	p.last = &at
	return nil
}

// readFindings passes on the stored findings after the position.
func (f *feed) readFindings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	p := &f.found
	newest, created, err := state.LastFinding(ctx, f.bus.JetStream(), f.cluster)
	if errors.Is(err, state.ErrNoRecord) || errors.Is(err, nats.ErrPermissionViolation) {
		p.stored, p.due = false, false
		return nil
	}
	if err != nil {
		return err
	}
	if p.last == nil { // the first start, or live ones were passed on until now
		if err := p.save(position{created, newest, time.Now()}); err != nil {
			return err
		}
	}
	p.stored = true
	before := *p.last
	reached := before
	visit := func(m state.StoredFinding) error {
		list, err := history.FindingEvents(f.cluster, m.At, &nats.Msg{Subject: m.Subject, Data: m.Data})
		if err != nil {
			f.log.Warn("events of a message are lost", "subject", m.Subject, "err", err)
		}
		if err := f.deliver("", time.Time{}, list); err != nil {
			return err
		}
		reached = position{created, m.Sequence, m.At}
		return nil
	}
	if created.Equal(before.Created) {
		err = state.FindingsAfter(ctx, f.bus.JetStream(), f.cluster, before.Sequence, visit)
	} else {
		err = state.FindingsSince(ctx, f.bus.JetStream(), f.cluster, before.At.Add(time.Nanosecond), visit)
	}
	if reached != before { // after a crash before this the same events follow again, with the same ids
		err = errors.Join(err, p.save(reached))
	}
	p.due = err != nil
	return err
}
