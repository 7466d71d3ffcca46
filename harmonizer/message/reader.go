package message

import (
	"hash/maphash"
	"math/bits"
)

// Sum identifies the bytes of a whole message. It is keyed, so a sender cannot make two
// messages with the same Sum.
type Sum [2]uint64

// Mark identifies the bytes of one object of a heartbeat.
type Mark struct {
	Sum uint64
	Len uint32 // bytes; 0: empty mark
	// Owner is for the caller, which stores marks between two heartbeats.
	Owner uint32
}

// Text is a string of a message.
type Text struct {
	ID  ID // the string, unless its form is FormOther
	Raw []byte
}

// Listing is one object of a heartbeat. Its strings are not copied.
type Listing struct {
	// Repeats is the position in the last marks of an equal object; then only Mark is set, to
	// that object's mark. It is negative if the object is new.
	Repeats int
	Foreign bool // of another partition; ignore it
	Mark    Mark // of a new object: without an owner

	Partition []byte

	App, Version, Instance Text
	Index                  uint32  // below MaxInstances
	State                  []byte  // not empty
	Since                  float64 // unix seconds
	Unready                bool
}

// Reading is the result of Heartbeats.Read. It is valid until the next Read, while the message
// does not change.
type Reading struct {
	Node     []byte
	Listings []Listing
}

// Heartbeats decodes heartbeats. In the form that nodes send, and that encoding/json produces, it does not allocate. A
// Heartbeats has one owner.
type Heartbeats struct {
	partition string
	seeds     [2]maphash.Seed
	keys      [3]uint64
	listings  []Listing
}

// NewHeartbeats returns a reader that marks objects of another or no cc_partition as Foreign.
// With partition "" no object is Foreign.
func NewHeartbeats(partition string) *Heartbeats {
	h := &Heartbeats{
		partition: partition,
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

// Hash returns a hash of an ID, for a table whose keys senders choose. It differs between
// readers. It has two rounds of multiplication and folding, as in wyhash.
func (h *Heartbeats) Hash(id ID) uint64 {
	hi, lo := bits.Mul64(id.Hi^h.keys[0], id.Lo^h.keys[1]^uint64(id.Form)<<56)
	hi, lo = bits.Mul64(hi^lo^h.keys[2], 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// Read decodes a heartbeat of a node. An empty node is the legacy subject, where ids may be whole numbers and a version may be
// missing. If objects are not readable, Read returns the others, and the error is an *UnreadError. After a *FieldError the result has the
// node alone, if it is readable. last returns the marks of the
// node's previous heartbeat, in the order of its Listings. last may be nil.
func (h *Heartbeats) Read(from Node, data []byte, last func(node []byte) []Mark) (Reading, error) {
	if cap(h.listings) > keptListings {
		h.listings = nil
	}
	d := decoder{scanner: scanner{data: data}, agent: from.Name != "", reader: h, listings: h.listings[:0]}
	r, err := d.heartbeat(last)
	h.listings = d.listings
	return r, err
}

// keptListings is the number of objects whose space is kept for the next heartbeat.
const keptListings = 4096

// PackText packs a string if possible.
func PackText(s []byte) Text { return Text{ID: Pack(s), Raw: s} }
