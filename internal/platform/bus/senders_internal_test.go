package bus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// One loud sender fills its own share. Each other sender still has room for its messages.
func TestLoudSenderLosesItsOwnMessagesOnly(t *testing.T) {
	w := waitingLoad{most: load{1000, 1 << 20}, of: &Senders{Largest: 64 << 10, Messages: 100, Bytes: 256 << 10}, each: map[string]load{}}
	lost := 0
	for range 80_000 {
		if err := w.add("loud", 100); err != nil {
			if !errors.Is(err, ErrInboxFull) {
				t.Fatal(err)
			}
			lost++
		}
	}
	if lost != 80_000-100 {
		t.Errorf("%d messages of the loud sender are lost, want all but 100", lost)
	}
	for i := range 200 {
		if err := w.add(fmt.Sprint("quiet", i), 1000); err != nil {
			t.Errorf("message of quiet sender %d: %v", i, err)
		}
	}
	if err := w.add("large", 64<<10+1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message of more than 64 KiB: %v, want ErrTooLarge", err)
	}
}

// Many loud senders share what there is, and leave room for the next one.
func TestLoudSendersLeaveRoomForTheNext(t *testing.T) {
	w := waitingLoad{most: load{1000, 1 << 20}, of: &Senders{Messages: 1000}, each: map[string]load{}}
	for range 1000 {
		for i := range 50 {
			_ = w.add(fmt.Sprint("loud", i), 500)
		}
	}
	if err := w.add("quiet", 500); err != nil {
		t.Errorf("message of a quiet sender: %v; %v of %v wait", err, w.all, w.most)
	}
}

// The sums of the waiting messages are those of the added and not removed messages, and never exceed a bound.
func TestWaitingLoadAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := load{rapid.IntRange(1, 20).Draw(t, "messages"), rapid.IntRange(0, 100).Draw(t, "bytes")}
		of := Senders{Largest: rapid.IntRange(0, 20).Draw(t, "largest"), Messages: rapid.IntRange(1, 10).Draw(t, "of_sender"), Bytes: rapid.IntRange(0, 50).Draw(t, "bytes_of_sender")}
		w := waitingLoad{most: most, of: &of, each: map[string]load{}}
		type message struct {
			sender string
			bytes  int
		}
		var waiting []message
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(waiting) > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				w.remove(waiting[0].sender, waiting[0].bytes)
				waiting = waiting[1:]
			} else {
				m := message{rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "sender"), rapid.IntRange(0, 30).Draw(t, "size")}
				if w.add(m.sender, m.bytes) == nil {
					waiting = append(waiting, m)
				}
			}
			all, each := load{}, map[string]load{}
			for _, m := range waiting {
				all = load{all.messages + 1, all.bytes + m.bytes}
				if m.sender != "" {
					each[m.sender] = load{each[m.sender].messages + 1, each[m.sender].bytes + m.bytes}
				}
			}
			if w.all != all || fmt.Sprint(w.each) != fmt.Sprint(each) {
				t.Fatalf("%v and %v wait, want %v and %v", w.all, w.each, all, each)
			}
			if all.messages > most.messages || most.bytes > 0 && all.bytes > most.bytes {
				t.Fatalf("%v wait, at most %v may", all, most)
			}
			for sender, own := range each {
				if own.messages > of.Messages || of.Bytes > 0 && own.bytes > of.Bytes {
					t.Fatalf("%v of %q wait, at most %v may", own, sender, of)
				}
			}
		}
	})
}

func TestLosersEnd(t *testing.T) {
	var l losers
	begin := time.Unix(1000, 0)
	l.add(begin, "a")
	l.add(begin.Add(time.Second), "b")
	l.add(begin.Add(29*time.Second), "a")
	all := l.now(begin.Add(29 * time.Second))
	if len(all) != 2 || all[0] != (LostOfSender{"a", 2, begin, begin.Add(29 * time.Second)}) || all[1].Sender != "b" {
		t.Errorf("losers %v, want a with 2 losses, and b", all)
	}
	if all = l.now(begin.Add(31 * time.Second)); len(all) != 1 || all[0].Sender != "a" {
		t.Errorf("losers %v, want a", all)
	}
	for i := range 2 * maxLosers {
		l.add(begin.Add(31*time.Second), fmt.Sprint(i))
	}
	if n := len(l.now(begin.Add(31 * time.Second))); n != maxLosers {
		t.Errorf("%d losers, want at most %d", n, maxLosers)
	}
	if all = l.now(begin.Add(time.Hour)); all != nil {
		t.Errorf("losers %v an hour later", all)
	}
}
