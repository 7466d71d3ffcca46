package integrity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

const (
	// acceptEvery is how often a Guard with problems reads the acceptance.
	acceptEvery = time.Second
	// verifyEvery is how often a Guard with problems reads its alarm again.
	verifyEvery = 5 * time.Second
	// markerSlack is the part of a marker's TTL that two clocks may differ by.
	markerSlack = 5 * time.Minute
)

// FolderName is the subfolder of a data folder with the files of Guards.
const FolderName = "integrity"

// Config configures a Guard.
type Config struct {
	JS      jetstream.JetStream
	Bucket  string
	Filters []string // of the keys; empty: all keys
	Erased  []string // prefixes of keys whose delete markers end after kvbucket.MarkerTTL
	Reader  Reader
	Folder  string // of the file; empty: revisions are only in memory
	By      string // this process, in the alarm; empty: publish no alarm
	Log     *slog.Logger
}

// Guard compares a bucket with the revisions that its reader has seen.
type Guard struct {
	config Config

	mu       sync.Mutex
	seen     *seen
	latest   Contents
	readAt   map[string]time.Time // by Config.Erased: when the last Read of these keys began
	problems map[string]Problem
	written  map[string]line // by the reader itself, since the last Read of all filters
	// published is the digest of the alarm; known is false before the first one.
	published        string
	known            bool
	verifiedAt       time.Time // when the alarm was last published, or read again
	acceptanceRead   bool      // the first Read has read the acceptance
	acceptanceReadAt time.Time // when the acceptance was last read
	logLimit         rate.Sometimes
}

// Open returns a Guard with the revisions of its file.
func Open(c Config) (*Guard, error) {
	path := ""
	if c.Folder != "" {
		path = filepath.Join(c.Folder, c.Bucket+".jsonl")
	}
	s, err := openSeen(path)
	if err != nil {
		return nil, fmt.Errorf("read the seen revisions of bucket %s: %w", c.Bucket, err)
	}
	if s.bad > 0 {
		c.Log.Warn("seen-revisions file damaged, fewer keys are checked", "file", path, "lines", s.bad)
	}
	g := &Guard{config: c, seen: s, readAt: map[string]time.Time{}, problems: map[string]Problem{}, written: map[string]line{}, logLimit: rate.Sometimes{Interval: time.Minute}}
	for _, prefix := range c.Erased {
		g.readAt[prefix] = s.at
	}
	return g, nil
}

// Close closes the file.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.close()
}

// Read reads the bucket, or only the keys that these filters match, and compares it with the seen revisions. It adds
// new revisions to them. A bucket that is not the one of the last Read is read whole.
func (g *Guard) Read(ctx context.Context, filters ...string) (Contents, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(ctx)
	if len(filters) == 0 {
		return g.readLocked(ctx, g.config.Filters)
	}
	c, err := g.readLocked(ctx, filters)
	if err == nil && !g.seen.is(c) {
		if _, err = g.readLocked(ctx, g.config.Filters); err == nil {
			c, err = g.readLocked(ctx, filters)
		}
	}
	return c, err
}

func (g *Guard) readLocked(ctx context.Context, filters []string) (Contents, error) {
	began := time.Now()
	e := expected{created: g.seen.created, last: g.seen.last, revision: func(key string) uint64 {
		if _, known := g.problems[key]; known {
			return 0
		}
		return g.seen.keys[key].revision
	}}
	if len(g.problems) > 0 { // no replica has what is known to be lost, so nothing waits for it again
		e.last = 0
	}
	c, err := read(ctx, g.config.JS, g.config.Bucket, filters, e)
	whole := slices.Equal(filters, g.config.Filters)
	if err != nil || !whole && !g.seen.is(c) {
		return c, err
	}
	before := g.problems
	g.latest, g.problems = c, g.seen.check(g.config.Bucket, filters, c)
	for key, p := range before {
		if p.reported || key != "" && !matches(filters, key) {
			g.problems[key] = p
		}
	}
	lost := g.erased(began)
	for _, prefix := range g.config.Erased {
		if matches(filters, prefix+"x") {
			g.readAt[prefix] = began
		}
	}
	if whole {
		clear(g.written)
	}
	for _, p := range sorted(g.problems) {
		if before[p.Key] != p {
			g.alarm(p)
		}
	}
	g.storeLines(append(lost, g.seen.ended(filters, c)...)...)
	g.adopt(c)
	return c, nil
}

// begin runs at the first Read. It drops revisions from before the last acceptance, because an operator accepted the
// bucket while another host was its reader.
func (g *Guard) begin(ctx context.Context) {
	if g.acceptanceRead || g.config.By == "" {
		return
	}
	a, err := g.config.Reader.acceptance(ctx, g.config.JS)
	if g.acceptanceRead = err == nil; g.acceptanceRead && a.At.After(g.seen.at) {
		g.seen.created, g.seen.last = time.Time{}, 0
		clear(g.seen.keys)
	}
}

// Report adds a problem of a key that the caller has detected. It stays until it is accepted.
func (g *Guard) Report(key, expected, found string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems[key] = Problem{Bucket: g.config.Bucket, Key: key, Expected: expected, Found: found, reported: true}
	g.alarm(g.problems[key])
}

// erased drops missing keys whose delete marker may have ended since the last Read: they are not a problem. A key
// that was there so recently that its marker would be there too is lost.
func (g *Guard) erased(now time.Time) (forgotten []line) {
	for _, prefix := range g.config.Erased {
		if now.Sub(g.readAt[prefix]) < kvbucket.MarkerTTL-markerSlack {
			continue
		}
		for key, p := range g.problems {
			if strings.HasPrefix(key, prefix) && p.missing {
				delete(g.problems, key)
				forgotten = append(forgotten, line{Key: key})
			}
		}
	}
	return forgotten
}

// adopt stores the revisions of all keys without a problem.
func (g *Guard) adopt(c Contents) {
	var lines []line
	if g.seen.created.IsZero() || len(g.problems) == 0 && !g.seen.created.Equal(c.Created) {
		lines = append(lines, line{Created: &c.Created})
		clear(g.seen.keys)
	}
	for _, k := range c.Keys {
		_, wrong := g.problems[k.Name]
		if now := (seenKey{k.Revision, k.Deleted}); !wrong && g.seen.keys[k.Name] != now {
			lines = append(lines, line{Key: k.Name, Revision: k.Revision, Deleted: k.Deleted})
		}
	}
	if len(g.problems) == 0 && c.Last > g.seen.last {
		lines = append(lines, line{Last: c.Last})
	}
	g.storeLines(lines...)
}

// storeLines stores lines. If the file cannot be written, this process still checks with its memory.
func (g *Guard) storeLines(lines ...line) {
	if err := g.seen.storeLines(lines...); err != nil {
		g.logLimit.Do(func() {
			g.config.Log.Error("seen revisions not saved, fewer keys are checked after a restart",
				"bucket", g.config.Bucket, "file", g.seen.path, "err", err)
		})
	}
}

// StoreRevision stores a change that the caller received live. It replaces any earlier revision and problem.
func (g *Guard) StoreRevision(key string, revision uint64, deleted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.problems, key)
	g.storeLines(line{Key: key, Revision: revision, Deleted: deleted})
}

// Wrote stores a write of the reader itself, which is the only writer of its keys. A deletion has at least that revision.
// A problem of the key stays.
func (g *Guard) Wrote(key string, revision uint64, deleted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := line{Key: key, Revision: revision, Deleted: deleted}
	g.written[key] = l
	for _, prefix := range g.config.Erased {
		g.readAt[prefix] = time.Now()
	}
	if _, wrong := g.problems[key]; !wrong {
		g.storeLines(l)
	}
}

// Readable ends the problem of a value that could not be decoded.
func (g *Guard) Readable(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.problems[key].Unreadable {
		delete(g.problems, key)
	}
}

// Unreadable reports a value that the reader cannot decode.
func (g *Guard) Unreadable(key, expected string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := Undecodable(g.config.Bucket, key, expected, err)
	if g.problems[key] != p {
		g.problems[key] = p
		g.alarm(p)
	}
}

// IsUnknown reports whether the value of a key is unknown.
func (g *Guard) IsUnknown(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, wrong := g.problems[key]
	return wrong
}

// Missing returns the keys that have disappeared, in order.
func (g *Guard) Missing() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for _, p := range sorted(g.problems) {
		if p.missing {
			all = append(all, p.Key)
		}
	}
	return all
}

// Problems returns all problems, in order of key.
func (g *Guard) Problems() []Problem {
	g.mu.Lock()
	defer g.mu.Unlock()
	return sorted(g.problems)
}

// Created returns when the bucket was created that the last Read read; zero before the first one.
func (g *Guard) Created() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest.Created
}

func (g *Guard) alarm(p Problem) {
	g.config.Log.Error("stored data damaged, lost or older than before",
		"bucket", p.Bucket, "key", p.Key, "expected", p.Expected, "found", p.Found)
}

// Publish writes or removes the alarm if it differs from the published one. A restore of the bucket of alarms can remove
// an alarm, so while there are problems, Publish reads it again every 5 s. A failure is logged, and the next call tries
// again.
func (g *Guard) Publish(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := sorted(g.problems)
	now := digest(all)
	if g.config.By == "" || g.known && now == g.published && g.stands(ctx, all) {
		return
	}
	err := g.write(ctx, all)
	if err != nil {
		g.config.Log.Warn("alarm not published", "reader", g.config.Reader.Name, "err", err)
		return
	}
	g.published, g.known, g.verifiedAt = now, true, time.Now()
}

// stands reports whether the published alarm of these problems is still stored, as far as is known.
func (g *Guard) stands(ctx context.Context, all []Problem) bool {
	if len(all) == 0 || time.Since(g.verifiedAt) < verifyEvery {
		return true
	}
	g.verifiedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := kvbucket.New(g.config.JS, g.config.Reader.Bucket).Get(ctx, alarmKey)
	if err != nil {
		return !errors.Is(err, kvbucket.ErrMissing)
	}
	var stored Alarm
	return e.Found && decode(e.Value, &stored) == nil && stored.Digest == digest(acceptable(all))
}

func (g *Guard) write(ctx context.Context, all []Problem) error {
	home := kvbucket.New(g.config.JS, g.config.Reader.Bucket)
	if len(all) > 0 {
		return put(ctx, home, alarmKey, Alarm{
			Reader: g.config.Reader.Name, By: g.config.By, At: time.Now().UTC(), Digest: digest(acceptable(all)),
			Count: len(all), Problems: all[:min(len(all), shown)],
		})
	}
	err := remove(ctx, home, alarmKey) // an earlier process may have left one
	if errors.Is(err, kvbucket.ErrMissing) {
		return nil
	}
	return err
}

// Accepted checks, about once a second while there are problems, whether an operator accepts them. If so, the last
// Read becomes the valid state, and the caller must read the bucket again.
func (g *Guard) Accepted(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wanted := digest(acceptable(sorted(g.problems)))
	if wanted == "" || g.config.By == "" || time.Since(g.acceptanceReadAt) < acceptEvery {
		return false, nil
	}
	g.acceptanceReadAt = time.Now()
	a, err := g.config.Reader.acceptance(ctx, g.config.JS)
	if err != nil || a.Digest != wanted {
		return false, err
	}
	g.config.Log.Warn("operator accepted stored data", "reader", g.config.Reader.Name, "problems", len(g.problems), "by", a.By, "reason", a.Reason)
	g.accept()
	return true, nil
}

// accept makes the last Read, and the reader's writes since then, the valid state.
func (g *Guard) accept() {
	lines := []line{{Created: &g.latest.Created, Last: g.latest.Last}}
	for key, was := range g.seen.keys {
		if _, wrong := g.problems[key]; !wrong && was.revision <= g.latest.Last {
			lines = append(lines, line{Key: key, Revision: was.revision, Deleted: was.deleted})
		}
	}
	for _, k := range g.latest.Keys {
		if !k.Damaged {
			lines = append(lines, line{Key: k.Name, Revision: k.Revision, Deleted: k.Deleted})
		}
	}
	for _, l := range g.written {
		lines = append(lines, l)
	}
	g.storeLines(lines...)
	g.problems = map[string]Problem{}
}
