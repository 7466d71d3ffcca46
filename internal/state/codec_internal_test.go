package state

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

func FuzzDecodeSealed(f *testing.F) {
	f.Add([]byte(`{"epoch":1}` + "\nbody"))
	f.Add([]byte(`{"epoch":1,"gzip":true}` + "\nbody"))
	f.Add([]byte(`{"node":"i-1"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := decodeSealed(value)
		if err != nil {
			return
		}
		if s.epoch >= maxEpoch || len(s.body) > maxBody {
			t.Fatalf("decodeSealed = epoch %d, %d bytes", s.epoch, len(s.body))
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeSealed(again); err != nil || back.epoch != s.epoch || !bytes.Equal(back.body, s.body) {
			t.Fatalf("it does not come back: %v", err)
		}
	})
}

// A packed value can be a thousand times as long as its packed form.
func TestSealedBomb(t *testing.T) {
	bomb, packed := pack(make([]byte, maxBody+1))
	if !packed {
		t.Fatal("it is not packed")
	}
	if _, err := decodeSealed(append([]byte(`{"epoch":1,"gzip":true}`+"\n"), bomb...)); err == nil {
		t.Error("decodeSealed = nil, want an error")
	}
}

func FuzzDecodeClaim(f *testing.F) {
	f.Add([]byte(`{"holder":"a","epoch":1,"ttl_ns":1000000,"at":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`{"holder":"a","epoch":18446744073709551615,"ttl_ns":-1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decodeClaim(value)
		if err == nil && (c.Holder == "" || c.Epoch == 0 || c.Epoch+1 > maxEpoch || c.TTL <= 0 || c.TTL > maxTTL) {
			t.Fatalf("decodeClaim = %+v", c)
		}
	})
}

func FuzzDecodeOrder(f *testing.F) {
	const note = `"by":"ann","at":"2026-03-01T12:00:00Z"`
	f.Add("pause", []byte(`{`+note+`}`))
	f.Add("offset", []byte(`{`+note+`,"weight":1e308}`))
	f.Add("pin", []byte(`{`+note+`,"bound":"min"}`))
	f.Add("remove.i-1", []byte(`{`+note+`,"node":"i-1"}`))
	f.Add("stale.=Kg", []byte(`{`+note+`,"group":"*"}`))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		o, err := decodeOrder(name, value)
		if err != nil {
			return
		}
		var all api.Orders
		o.add(&all)
		if o.note.By == "" || all.Offset != nil && !finite(all.Offset.Weight) || all.Pin != nil && !(all.Pin.Target >= 0) {
			t.Fatalf("decodeOrder = %+v", all)
		}
	})
}

func FuzzPartsOf(f *testing.F) {
	f.Add("1,2,3")
	f.Add("0,,-1")
	f.Fuzz(func(t *testing.T, text string) {
		h := nats.Header{}
		h.Set(partsHeader, text)
		parts, err := partsOf(h)
		if err != nil {
			return
		}
		back := nats.Header{}
		setParts(back, parts)
		if again, err := partsOf(back); err != nil || len(again) != len(parts) || len(parts) > maxParts {
			t.Fatalf("%d parts, then %d, %v", len(parts), len(again), err)
		}
	})
}

func TestGroupTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringN(0, 40, 300), rapid.StringMatching(`=?[-_/=.a-z]{0,5}`))
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		one, errA := GroupToken(a)
		two, errB := GroupToken(b)
		if errA == nil && errB == nil && (one == two) != (a == b) {
			t.Fatalf("groupToken: %q for %q, %q for %q", one, a, two, b)
		}
		if errA == nil && !names.ValidKey(one) {
			t.Fatalf("GroupToken(%q) = %q, which is no key", a, one)
		}
		if errA != nil && a != "" && len(a) < 180 {
			t.Fatalf("GroupToken(%q) = %v", a, errA)
		}
	})
}

func FuzzReadPage(f *testing.F) {
	f.Add(false, []byte(`{"web":{"app":"web","version":"v1","indices":[{"index":0,"crashes":2,"crashed_at":"2026-03-01T12:00:00Z"}]}}`))
	f.Add(true, []byte(`{"n1":3}`))
	f.Add(false, []byte(`{"web":{"app":"db"}}`))
	f.Add(true, []byte(`null`))
	f.Fuzz(func(t *testing.T, nodes bool, body []byte) {
		key := nodesKey
		if !nodes {
			key = shardKey("web")
		}
		p := newPages()[key]
		p.empty()
		if err := p.read(body); err != nil {
			if len(p.entries) != 0 || len(p.loaded.Apps) != 0 || len(p.loaded.Nodes) != 0 {
				t.Fatalf("after %v it has %d entries", err, len(p.entries))
			}
			return
		}
		apps, err := encodeMemories(p.loaded.Apps)
		if err != nil {
			t.Fatalf("what was read cannot be kept: %v", err)
		}
		census, err := encodeCensus(p.loaded.Nodes)
		if err != nil {
			t.Fatalf("what was read cannot be kept: %v", err)
		}
		if len(apps)+len(census) != len(p.entries) {
			t.Fatalf("%d apps and %d nodes of %d entries", len(apps), len(census), len(p.entries))
		}
		again := newPages()[key]
		again.empty()
		if err := again.read(p.body()); err != nil || len(again.entries) != len(p.entries) {
			t.Fatalf("of %d entries come back %d, %v", len(p.entries), len(again.entries), err)
		}
	})
}
