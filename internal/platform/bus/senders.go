package bus

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrTooLarge is the error of a message that is larger than its sender may send.
var ErrTooLarge = errors.New("message is too large")

// Senders bounds the messages of each sender of an Inbox, so that one loud sender loses its own messages and no others.
//
//	waiting messages of a sender <= min(Messages, free room of the Inbox)
//
// So one loud sender takes at most half of an Inbox, two take two thirds, and there is always room for the next one.
type Senders struct {
	// Of returns the sender in a subject; empty: a message without a sender of its own, which these bounds do not limit.
	Of       func(subject string) string
	Largest  int // bytes of one message; 0: unlimited
	Messages int // waiting ones; at least 1
	Bytes    int // of the waiting ones; 0: unlimited
}

// LostOfSender is a sender that loses messages now, because it sends too many or too large ones.
type LostOfSender struct {
	Sender string
	Lost   uint64    // messages since then
	Since  time.Time // of the first one
	Last   time.Time // of the latest one
}

const (
	// lostFor is how long after its latest loss a sender counts as losing messages.
	lostFor = 30 * time.Second
	// maxLosers bounds the senders that are known by name. The losses of further ones are not.
	maxLosers = 1000
)

// load is a number of messages and their bytes.
type load struct{ messages, bytes int }

// waitingLoad counts what waits in an inbox, of all senders and of each. One goroutine uses it.
type waitingLoad struct {
	most load // bytes 0: unlimited
	of   *Senders
	all  load
	each map[string]load
}

func (w *waitingLoad) sender(subject string) string {
	if w.of == nil {
		return ""
	}
	return w.of.Of(subject)
}

// add counts a message, or returns ErrTooLarge or ErrInboxFull.
func (w *waitingLoad) add(sender string, bytes int) error {
	free := load{w.most.messages - w.all.messages, w.most.bytes - w.all.bytes}
	if free.messages < 1 || w.most.bytes > 0 && bytes > free.bytes {
		return ErrInboxFull
	}
	if sender != "" {
		if w.of.Largest > 0 && bytes > w.of.Largest {
			return ErrTooLarge
		}
		own := w.each[sender]
		if own.messages >= min(w.of.Messages, free.messages) ||
			w.most.bytes > 0 && own.bytes+bytes > free.bytes || w.of.Bytes > 0 && own.bytes+bytes > w.of.Bytes {
			return ErrInboxFull
		}
		w.each[sender] = load{own.messages + 1, own.bytes + bytes}
	}
	w.all.messages, w.all.bytes = w.all.messages+1, w.all.bytes+bytes
	return nil
}

// remove counts a message that no longer waits.
func (w *waitingLoad) remove(sender string, bytes int) {
	w.all.messages, w.all.bytes = w.all.messages-1, w.all.bytes-bytes
	if sender == "" {
		return
	}
	own := w.each[sender]
	if own = (load{own.messages - 1, own.bytes - bytes}); own.messages == 0 {
		delete(w.each, sender)
	} else {
		w.each[sender] = own
	}
}

// losers has the senders that lost messages recently. It may be used concurrently.
type losers struct {
	mu   sync.Mutex
	each map[string]LostOfSender // guarded by mu
}

// add counts a lost message, and reports whether it is the first one.
func (l *losers) add(now time.Time, sender string) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, known := l.each[sender]
	switch {
	case known && now.Sub(one.Last) < lostFor:
	case !known && len(l.each) >= maxLosers:
		return false
	default:
		one, first = LostOfSender{Sender: sender, Since: now}, true
	}
	one.Lost, one.Last = one.Lost+1, now
	if l.each == nil {
		l.each = map[string]LostOfSender{}
	}
	l.each[sender] = one
	return first
}

// now returns the senders that lose messages, those with the most losses first.
func (l *losers) now(now time.Time) (all []LostOfSender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sender, one := range l.each {
		if now.Sub(one.Last) >= lostFor {
			delete(l.each, sender)
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b LostOfSender) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Sender, b.Sender))
	})
	return all
}
