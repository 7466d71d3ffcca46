package bootstrap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// shortTimeouts returns timeouts that are long except for those under test.
func shortTimeouts(change func(*timeouts)) timeouts {
	p := timeouts{
		take: time.Minute, refresh: time.Minute, follow: time.Minute, end: time.Minute,
		hung: func(time.Duration) time.Duration { return time.Minute },
	}
	change(&p)
	return p
}

func (p *peer) awaitHang(t *testing.T, want string) {
	t.Helper()
	select {
	case why := <-p.hung:
		if !strings.Contains(why, want) {
			t.Errorf("it hangs because %q, want %q", why, want)
		}
	case <-time.After(await.Patience):
		t.Fatal("the autoscaler is not found to hang")
	}
}

func TestAutoscalerThatDoesNotFollow(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(p *timeouts) { p.follow = 20 * time.Millisecond }))
	p.next(t)
	p.awaitHang(t, "it followed no revision of the directory for 20ms")
}

// An autoscaler that sends no further sign of life is ended. The limit depends on the tick and is far shorter than that
// for revisions.
func TestAutoscalerWithoutSignsOfLife(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(p *timeouts) {
		p.hung = func(tick time.Duration) time.Duration { return 10 * tick }
		p.refresh = 4 * time.Millisecond // interval of the checks
	}))
	p.expect(3 * time.Millisecond)
	first := p.next(t)
	if a := p.alive(); a != nil {
		t.Errorf("before the first sign of life there is %+v", a)
	}
	fmt.Fprintf(p.conn, "{\"revision\":%d}\n", first.Revision)
	p.awaitHang(t, "no sign of life for 30ms")
}

// A sign of life need not follow a revision.
func TestSignsOfLifeKeepABusyAutoscaler(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(*timeouts) {}))
	p.expect(time.Second)
	p.next(t)
	var last time.Time
	for range 3 {
		fmt.Fprintln(p.conn, "{}")
		await.True(t, "a later sign of life", func() bool {
			a := p.alive()
			return a != nil && a.At.After(last)
		})
		last = p.alive().At
	}
	now := last.Add(59 * time.Second)
	p.check(now)
	p.check(now.Add(time.Second))
	p.awaitHang(t, "no sign of life for 1m0s")
}

// A bootstrap that was halted does not blame its autoscaler for the missing signs of life.
func TestHaltedBootstrapEndsNothing(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(*timeouts) {}))
	p.expect(time.Second)
	first := p.next(t)
	fmt.Fprintf(p.conn, "{\"revision\":%d}\n", first.Revision)
	await.True(t, "a sign of life", func() bool { return p.alive() != nil })
	p.check(p.alive().At)
	p.check(p.alive().At.Add(time.Hour))
	select {
	case why := <-p.hung:
		t.Errorf("the autoscaler is ended because %q", why)
	default:
	}
}

// An autoscaler that follows gets revisions repeatedly and keeps running.
func TestAutoscalerThatFollows(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(p *timeouts) { p.refresh = 20 * time.Millisecond }))
	for last := 0; last < 5; {
		d := p.next(t)
		if d.Revision != last+1 {
			t.Fatalf("revision %d after %d", d.Revision, last)
		}
		last = d.Revision
		fmt.Fprintf(p.conn, "{\"revision\":%d}\n", last)
	}
	select {
	case why := <-p.hung:
		t.Errorf("it hangs because %q, want it left alone", why)
	default:
	}
}

// An autoscaler that has not followed gets no extra revisions.
func TestAutoscalerThatIsBusy(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(p *timeouts) { p.refresh = 4 * time.Millisecond }))
	first := p.next(t)
	select {
	case why := <-p.hung:
		t.Fatalf("it hangs because %q, want it left alone", why)
	case <-time.After(50 * time.Millisecond):
	}
	fmt.Fprintf(p.conn, "{\"revision\":%d}\n", first.Revision)
	if second := p.next(t); second.Revision != first.Revision+1 {
		t.Errorf("revision %d after %d, want none between", second.Revision, first.Revision)
	}
}

func TestAutoscalerThatTakesNothing(t *testing.T) {
	p := newPeerWith(t, &Directory{Config: make([]byte, 1<<20)}, shortTimeouts(func(p *timeouts) { p.take = 20 * time.Millisecond }))
	p.awaitHang(t, "it did not read a revision of the directory within 20ms")
	p.stillCounts(t)
}

func TestAutoscalerThatClosesItsStream(t *testing.T) {
	p := newPeerWith(t, &Directory{}, shortTimeouts(func(p *timeouts) { p.end = 20 * time.Millisecond }))
	p.next(t)
	p.conn.Close()
	p.awaitHang(t, "has not ended after 20ms")
	p.stillCounts(t)
}

// stillCounts checks that an autoscaler whose stream was dropped counts until its process has ended.
func (p *peer) stillCounts(t *testing.T) {
	t.Helper()
	if present, _, _ := p.progress(); !present {
		t.Error("an autoscaler is taken for gone on the word of its stream")
	}
	followed := make(chan bool, 1)
	go func() { followed <- p.awaitFollowed(t.Context(), 1000) }()
	select {
	case <-followed:
		t.Error("it is not waited for any more")
	case <-time.After(5 * time.Millisecond):
	}
	p.gone()
	if !<-followed {
		t.Error("awaitFollowed = false after the process has gone")
	}
}
