package message

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"math/bits"
)

// Sum stands for the bytes of a whole message: two messages of the same Sum are
// the same, for whoever cannot choose it, since it is keyed.
type Sum [2]uint64

// Mark stands for the bytes of one object of a heartbeat.
type Mark struct {
	Sum uint64
	Len uint32 // bytes; 0 is a mark of nothing
	// Owner is for the caller's use, who keeps marks between two heartbeats.
	Owner uint32
}

// Text is a string of a message. It is packed, or Raw holds it.
type Text struct {
	ID  ID
	Raw []byte // with FormOther only
}

// Listing is one object of a heartbeat, without its strings copied.
type Listing struct {
	// Repeats is the place in the last marks of the object that this one repeats
	// byte for byte; nothing else is told of it then. Otherwise it is negative.
	Repeats int
	Foreign bool // of another partition; to be passed over
	Mark    Mark // without an owner

	App, Version, Instance Text
	Index                  uint32  // below MaxInstances
	State                  []byte  // not empty
	Since                  float64 // unix seconds
}

// Reading is a heartbeat as Heartbeats.Read found it; valid until its next Read,
// and as long as the message does not change.
type Reading struct {
	Node     []byte
	Listings []Listing
	Slow     bool // it was not in the usual form
}

// Heartbeats reads heartbeats of the usual form, that is what nodes send and
// what encoding/json makes of a Heartbeat, without allocating:
//
//	{"dea":ID,"droplets":[{"cc_partition":"P","droplet":ID,"version":ID,
//	"instance":ID,"index":N,"state":"S","state_timestamp":N},...]}
//
// with cc_partition absent or not, and dea first or last. Any other form is
// read by DecodeHeartbeat, with the same result. It has one owner.
type Heartbeats struct {
	partition string
	ours      string // how an object of that partition begins
	seeds     [2]maphash.Seed
	keys      [3]uint64
	listings  []Listing
}

// NewHeartbeats returns a reader for which objects of another cc_partition, or
// of none, are Foreign; with "" none is.
func NewHeartbeats(partition string) *Heartbeats {
	quoted, _ := json.Marshal(cmp.Or(partition, Partition)) // of a string: no error
	h := &Heartbeats{
		partition: partition,
		ours:      `{"cc_partition":` + string(quoted) + `,"droplet":`,
		seeds:     [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	for i := range h.keys {
		h.keys[i] = maphash.Bytes(h.seeds[0], []byte{byte(i)})
	}
	return h
}

// Sum returns the sum of a message. It differs between readers.
func (h *Heartbeats) Sum(data []byte) Sum {
	return Sum{maphash.Bytes(h.seeds[0], data), maphash.Bytes(h.seeds[1], data)}
}

// Hash returns a hash of an ID for a table whose keys strangers choose. It
// differs between readers. It is two rounds of multiplying and folding, as in
// wyhash.
func (h *Heartbeats) Hash(id ID) uint64 {
	hi, lo := bits.Mul64(id.Hi^h.keys[0], id.Lo^h.keys[1]^uint64(id.Form)<<56)
	hi, lo = bits.Mul64(hi^lo^h.keys[2], 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// Read reads a heartbeat, as a whole or not at all. What last returns for the
// node is the marks of its previous one, as they stand in its Listings; it may
// be nil.
func (h *Heartbeats) Read(data []byte, last func(node []byte) []Mark) (Reading, error) {
	if cap(h.listings) > keptListings {
		h.listings = nil
	}
	t := template{reader: h, data: data, listings: h.listings[:0]}
	r, ok := t.heartbeat(last)
	h.listings = t.listings
	if ok {
		return r, nil
	}
	return h.slow(data)
}

// keptListings is how many objects' space is kept for the next heartbeat.
const keptListings = 4096

func (h *Heartbeats) slow(data []byte) (Reading, error) {
	hb, err := DecodeHeartbeat(data)
	if err != nil {
		return Reading{}, err
	}
	h.listings = h.listings[:0]
	for _, b := range hb.Beats {
		h.listings = append(h.listings, Listing{
			Repeats:  -1,
			Foreign:  h.partition != "" && b.Partition != h.partition,
			App:      PackText([]byte(b.App)),
			Version:  PackText([]byte(b.Version)),
			Instance: PackText([]byte(b.Instance)),
			Index:    uint32(b.Index),
			State:    []byte(b.State),
			Since:    b.Since,
		})
	}
	return Reading{Node: []byte(hb.Node), Listings: h.listings, Slow: true}, nil
}

// PackText packs a string if it can be, or keeps it.
func PackText(s []byte) Text {
	t := Text{ID: Pack(s)}
	if t.ID.Form == FormOther {
		t.Raw = s
	}
	return t
}
