package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	short = 300 * time.Millisecond // a TTL that the test waits for
	long  = 5 * time.Minute        // a TTL that the test does not wait for
)

func newLease(t *testing.T, js jetstream.JetStream, holder string, ttl time.Duration) *state.Lease {
	t.Helper()
	l, err := state.NewLease(js, state.LeaseConfig{
		Bucket: poolBucket, Holder: holder, TTL: ttl, Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// acquire calls Acquire and sends its result.
func acquire(t *testing.T, l *state.Lease) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- l.Acquire(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return done
}

// acquired waits until the lease is held.
func acquired(t *testing.T, l *state.Lease) {
	t.Helper()
	if err := result(t, "the lease is acquired", acquire(t, l)); err != nil {
		t.Fatal(err)
	}
}

// run renews the lease until stop is called or the test ends.
func run(t *testing.T, l *state.Lease) (stop func(), done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result <- l.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop, result
}

// takeover returns the first holder's time left when the second one has the lease.
func takeover(t *testing.T, first, second *state.Lease) time.Duration {
	t.Helper()
	left := make(chan time.Duration, 1)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		if err := second.Acquire(ctx); err != nil {
			t.Error(err)
		}
		left <- first.Left()
	}()
	return result(t, "the lease is taken over", left)
}

func wantNotHolder(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("%s = %v, want %v", what, err, pools.ErrNotHolder)
	}
}

func TestLeaseIsHandedOver(t *testing.T) {
	js := js(t)
	a, b := newLease(t, js, "a", long), newLease(t, js, "b", long)
	if a.Left() != 0 || a.Epoch() != 0 {
		t.Errorf("before Acquire: left %v, epoch %d, want nothing", a.Left(), a.Epoch())
	}
	acquired(t, a)
	stop, done := run(t, a)
	if left := a.Left(); left <= 0 || left > long {
		t.Errorf("left %v, want up to %v", left, long)
	}
	waits := acquire(t, b)
	await.True(t, "b reports a as holder", func() bool { who, waiting := b.Standby(); return waiting && who == "a" })
	if b.Left() != 0 {
		t.Error("b holds it too")
	}
	stop()
	if err := result(t, "Run ends", done); err != nil || a.Left() != 0 {
		t.Errorf("Run = %v, left %v, want nil and nothing", err, a.Left())
	}
	if err := result(t, "b takes over", waits); err != nil || b.Left() <= 0 {
		t.Fatalf("Acquire = %v, left %v", err, b.Left())
	}
	if a.Epoch() >= b.Epoch() {
		t.Errorf("epochs %d, %d, want that they rise", a.Epoch(), b.Epoch())
	}
	if _, waiting := b.Standby(); waiting {
		t.Error("b still reports that it waits")
	}
}

func TestLeaseOfAKilledHolder(t *testing.T) {
	data := t.TempDir()
	js := open(t, data).JetStream()
	conn, through := newProxy(t, data).connect(t)
	a, b := newLease(t, through, "a", short), newLease(t, js, "b", short)
	acquired(t, a)
	_, done := run(t, a)
	conn.Close()
	if left := takeover(t, a, b); left != 0 {
		t.Errorf("b took over while a had %v left", left)
	}
	select {
	case err := <-done:
		t.Errorf("a's Run = %v without a word from NATS", err)
	default:
	}
}

// A holder that was halted for longer than its TTL first has no time left, then receives ErrNotHolder.
func TestLeaseOfAHaltedHolder(t *testing.T) {
	js := js(t)
	a, b := newLease(t, js, "a", short), newLease(t, js, "b", short)
	acquired(t, a) // Run never starts
	if left := takeover(t, a, b); left != 0 {
		t.Errorf("b took over while a had %v left", left)
	}
	run(t, b)
	_, done := run(t, a)
	wantNotHolder(t, "a's Run", result(t, "a's Run ends", done))
	if left := a.Left(); left != 0 {
		t.Errorf("a has %v left, want b to hold it", left)
	}
	await.True(t, "b still renews it", func() bool { return b.Left() > short/2 })
}

func TestLeaseOfTheSameHolderIsTakenAtOnce(t *testing.T) {
	js := js(t)
	before, after := newLease(t, js, "a", long), newLease(t, js, "a", long)
	acquired(t, before)
	acquired(t, after)
	if before.Epoch() >= after.Epoch() {
		t.Errorf("epochs %d, %d, want that they rise", before.Epoch(), after.Epoch())
	}
}

func TestLeaseIsAcquiredAgain(t *testing.T) {
	js := js(t)
	a, b := newLease(t, js, "a", short), newLease(t, js, "b", short)
	acquired(t, a)
	first := a.Epoch()
	takeover(t, a, b)
	stop, _ := run(t, b)
	_, done := run(t, a)
	wantNotHolder(t, "a's Run", result(t, "a's Run ends", done))
	waits := acquire(t, a)
	stop()
	if err := result(t, "a acquires it again", waits); err != nil || a.Epoch() < first+2 {
		t.Errorf("Acquire = %v, epoch %d after %d", err, a.Epoch(), first)
	}
	run(t, a)
	await.True(t, "a holds it", func() bool { return a.Left() > 0 })
}

// While NATS is away no process can take over, so the term is the same afterwards.
func TestLeaseOutlivesNATS(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	_, too := p.connect(t)
	a, b := newLease(t, through, "a", short), newLease(t, too, "b", short)
	acquired(t, a)
	epoch := a.Epoch()
	_, done := run(t, a)
	waits := acquire(t, b)
	await.True(t, "b stands by", func() bool { who, _ := b.Standby(); return who == "a" })
	server.Close()
	p.drop()
	await.True(t, "a's lease runs out", func() bool { return a.Left() == 0 })
	open(t, data)
	// Either may be the holder now, but only one.
	await.True(t, "one of them holds it", func() bool { return a.Left() > 0 || len(waits) > 0 }) // nobody renews b's
	select {
	case err := <-done:
		wantNotHolder(t, "a's Run", err)
		if err := result(t, "b has taken over", waits); err != nil || b.Epoch() <= epoch {
			t.Errorf("b's Acquire = %v, epoch %d after %d", err, b.Epoch(), epoch)
		}
	default:
		if b.Left() == 0 && a.Epoch() != epoch {
			t.Errorf("epoch %d, want %d still", a.Epoch(), epoch)
		}
	}
}

func TestLeaseContinuesWhenNATSReturns(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	a := newLease(t, through, "a", short)
	acquired(t, a)
	epoch := a.Epoch()
	_, done := run(t, a)
	server.Close()
	p.drop()
	await.True(t, "a's lease runs out", func() bool { return a.Left() == 0 })
	open(t, data)
	await.True(t, "a holds it again", func() bool { return a.Left() > 0 })
	if a.Epoch() != epoch || len(done) != 0 {
		t.Errorf("epoch %d, want %d still; Run has ended: %t", a.Epoch(), epoch, len(done) != 0)
	}
}

func TestLeaseOfAHolderThatIsCutOff(t *testing.T) {
	data := t.TempDir()
	js := open(t, data).JetStream()
	p := newProxy(t, data)
	_, through := p.connect(t)
	a, b := newLease(t, through, "a", short), newLease(t, js, "b", short)
	acquired(t, a)
	_, done := run(t, a)
	p.setCut(true)
	if left := takeover(t, a, b); left != 0 {
		t.Errorf("b took over while a had %v left", left)
	}
	run(t, b)
	p.setCut(false) // a's delayed write arrives now
	wantNotHolder(t, "a's Run", result(t, "a's Run ends", done))
	await.True(t, "b still renews it", func() bool { return b.Left() > short/2 })
}

func TestAcquireWaitsForNATS(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	server.Close()
	p.drop()
	a := newLease(t, through, "a", short)
	waits := acquire(t, a)
	open(t, data)
	if err := result(t, "it is acquired", waits); err != nil {
		t.Error(err)
	}
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	js := js(t)
	acquired(t, newLease(t, js, "a", long))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := newLease(t, js, "b", long).Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want %v", err, context.DeadlineExceeded)
	}
}

// A standby waits for the holder's TTL if that is longer than its own.
func TestLeaseOfAHolderWithALongerTTL(t *testing.T) {
	js := js(t)
	a, b := newLease(t, js, "a", 4*short), newLease(t, js, "b", short/10)
	acquired(t, a)
	if left := takeover(t, a, b); left != 0 {
		t.Errorf("b took over while a had %v left", left)
	}
}

func TestEpochsAreNeverUsedTwice(t *testing.T) {
	js := js(t)
	lose(t, js, poolBucket)
	spec := kvbucket.Settings(poolBucket, "", 1, -1)
	spec.DenyPurge = false
	stream, err := js.CreateStream(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "here", 1, "web") // writes the schema
	kv := kvbucket.New(js, poolBucket)
	seen := map[uint64]bool{}
	last := uint64(0)
	damage := map[string]func() error{
		"kept": func() error { return nil },
		"deleted": func() error {
			e, _ := kv.Get(t.Context(), "lease")
			_, err := kv.Delete(t.Context(), "lease", e.Revision)
			return err
		},
		"purged":    func() error { return stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+poolBucket+".lease")) },
		"destroyed": func() error { _, err := kv.Put(t.Context(), "lease", []byte("}")); return err },
		"no holder": func() error {
			_, err := kv.Put(t.Context(), "lease", []byte(`{"holder":"","epoch":18446744073709551615,"ttl_ns":-1}`))
			return err
		},
	}
	for range 2 {
		for name, do := range damage {
			l := newLease(t, js, "a", short/5)
			acquired(t, l)
			if seen[l.Epoch()] || l.Epoch() <= last {
				t.Fatalf("epoch %d after %d", l.Epoch(), last)
			}
			last = l.Epoch()
			seen[last] = true
			if err := do(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestRunOfALeaseThatIsNotHeld(t *testing.T) {
	_, done := run(t, newLease(t, js(t), "a", short))
	wantNotHolder(t, "Run", result(t, "Run ends", done))
}

func TestLeaseConfig(t *testing.T) {
	good := state.LeaseConfig{Bucket: poolBucket, Holder: "a", Log: testLog(t)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*state.LeaseConfig){
		"bucket":     func(c *state.LeaseConfig) { c.Bucket = "" },
		"holder":     func(c *state.LeaseConfig) { c.Holder = "" },
		"600 bytes":  func(c *state.LeaseConfig) { c.Holder = strings.Repeat("x", 600) },
		"ttl 1ms":    func(c *state.LeaseConfig) { c.TTL = time.Millisecond },
		"ttl 1h0m0s": func(c *state.LeaseConfig) { c.TTL = time.Hour },
		"logger":     func(c *state.LeaseConfig) { c.Log = nil },
	} {
		c := good
		change(&c)
		if _, err := state.NewLease(nil, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("NewLease = %v, want an error that has %q", err, name)
		}
	}
}
