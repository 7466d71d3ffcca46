package message

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"strconv"
)

// template reads the usual form of a heartbeat. Whatever it does not expect, it
// leaves to others by answering false: it refuses nothing, and what it takes,
// DecodeHeartbeat takes with the same values.
type template struct {
	reader   *Heartbeats
	data     []byte
	at       int
	listings []Listing
}

func (t *template) heartbeat(last func(node []byte) []Mark) (Reading, bool) {
	if len(t.data) > MaxBytes {
		return Reading{}, false
	}
	node, tail, ok := t.head()
	if !ok {
		return Reading{}, false
	}
	var marks []Mark
	if last != nil {
		marks = last(node)
	}
	if !t.list(marks) || string(t.data[t.at:]) != string(tail) {
		return Reading{}, false
	}
	return Reading{Node: node, Listings: t.listings}, true
}

// head reads up to the first object, and tells what has to follow the list.
func (t *template) head() (node, tail []byte, ok bool) {
	if t.skip(`{"dea":`) {
		node, ok = t.id()
		return node, t.data[len(t.data)-1:], ok && len(node) > 0 && t.skip(`,"droplets":[`) && t.data[len(t.data)-1] == '}'
	}
	// The node comes last. Where the list seems to end is proven by reading it.
	const before, after = `,"dea":`, `}`
	i := bytes.LastIndex(t.data, []byte(before))
	if i < 0 || !t.skip(`{"droplets":[`) {
		return nil, nil, false
	}
	end := template{data: t.data, at: i + len(before)}
	node, ok = end.id()
	return node, t.data[i:], ok && len(node) > 0 && string(t.data[end.at:]) == after
}

// list reads the objects up to the end of the list. The k-th of them is likely
// the k-th of the last heartbeat, one further for each that is gone.
func (t *template) list(last []Mark) bool {
	if t.skip(`]`) {
		return true
	}
	for guess := 0; len(t.listings) < MaxBeats; guess++ {
		start := t.at
		t.listings = append(t.listings, Listing{Repeats: -1})
		l := &t.listings[len(t.listings)-1]
		mark, next := t.repeated(last, guess)
		if next > 0 {
			guess = next - 1
			l.Repeats, l.Mark = guess, last[guess]
		} else if !t.object(l) {
			return false
		} else {
			l.Mark = t.mark(start, mark)
		}
		if t.skip(`,`) {
			continue
		}
		return t.skip(`]`)
	}
	return false
}

// repeated reports at which of the last marks, counted from 1, the next object
// stands: at the guess or one behind it. It passes over the object then. If it
// is at neither, the mark of the bytes that it looked at is returned.
func (t *template) repeated(last []Mark, guess int) (mark Mark, place int) {
	for i := guess; i < min(guess+2, len(last)); i++ {
		m := last[i]
		if m.Len == 0 || int(m.Len) > len(t.data)-t.at {
			continue
		}
		if m.Len != mark.Len {
			mark = Mark{Sum: t.sum(t.at, t.at+int(m.Len)), Len: m.Len}
		}
		if mark.Sum == m.Sum {
			t.at += int(m.Len)
			return mark, i + 1
		}
	}
	return mark, 0
}

// mark returns the mark of the object that has been read; computed may be it.
func (t *template) mark(start int, computed Mark) Mark {
	if int(computed.Len) == t.at-start {
		return computed
	}
	return Mark{Sum: t.sum(start, t.at), Len: uint32(t.at - start)}
}

func (t *template) sum(start, end int) uint64 {
	return maphash.Bytes(t.reader.seeds[0], t.data[start:end])
}

func (t *template) object(l *Listing) bool {
	if !t.partition(l) || !t.packed(&l.App) || l.App.ID == (ID{}) || !t.skip(`,"version":`) ||
		!t.packed(&l.Version) || !t.skip(`,"instance":`) ||
		!t.packed(&l.Instance) || l.Instance.ID == (ID{}) || !t.skip(`,"index":`) {
		return false
	}
	index, digits := t.digits()
	if digits == 0 || index >= MaxInstances || !t.skip(`,"state":"`) {
		return false
	}
	l.Index = uint32(index)
	return t.state(l) && t.seconds(l) && t.skip(`}`)
}

// partition reads up to the app.
func (t *template) partition(l *Listing) bool {
	if t.skip(t.reader.ours) {
		return true
	}
	var partition []byte
	if t.skip(`{"cc_partition":"`) {
		var ok bool
		if partition, ok = t.text(); !ok || !t.skip(`,"droplet":`) {
			return false
		}
	} else if !t.skip(`{"droplet":`) {
		return false
	}
	l.Foreign = t.reader.partition != "" && string(partition) != t.reader.partition
	return true
}

func (t *template) state(l *Listing) bool {
	start := t.at
	if t.skip(`RUNNING","state_timestamp":`) {
		l.State = t.data[start : start+len(Running)]
		return true
	}
	var ok bool
	l.State, ok = t.text()
	return ok && len(l.State) > 0 && t.skip(`,"state_timestamp":`)
}

// skip passes over what is expected.
func (t *template) skip(expected string) bool {
	end := t.at + len(expected)
	if end > len(t.data) || string(t.data[t.at:end]) != expected {
		return false
	}
	t.at = end
	return true
}

// packed reads a string or a whole number; those of the two usual lengths are
// checked and packed in one go.
func (t *template) packed(into *Text) bool {
	rest := t.data[t.at:]
	if len(rest) > uuidLen+1 && rest[0] == '"' {
		if rest[uuidLen+1] == '"' {
			if hi, lo, ok := unhexUUID(rest[1 : uuidLen+1]); ok {
				into.ID, t.at = ID{hi, lo, FormUUID}, t.at+uuidLen+2
				return true
			}
		}
		if rest[hexLen+1] == '"' {
			if hi, lo, ok := unhex32(rest[1 : hexLen+1]); ok {
				into.ID, t.at = ID{hi, lo, FormHex}, t.at+hexLen+2
				return true
			}
		}
	}
	s, ok := t.id()
	*into = PackText(s)
	return ok
}

// id reads a string or a whole number that is not negative.
func (t *template) id() ([]byte, bool) {
	if t.skip(`"`) {
		return t.text()
	}
	start := t.at
	_, digits := t.digits()
	return t.data[start:t.at], digits > 0
}

// text reads the rest of a string of at most MaxID bytes in which nothing has
// to be replaced.
func (t *template) text() ([]byte, bool) {
	rest := t.data[t.at:min(len(t.data), t.at+MaxID+1)]
	for i, c := range rest {
		if c == '"' {
			t.at += i + 1
			return rest[:i], true
		}
		if c < ' ' || c == '\\' || c > '~' {
			break
		}
	}
	return nil, false
}

// digits reads a whole number as JSON writes it, of at most 15 digits, 0 digits
// if there is none.
func (t *template) digits() (value uint64, digits int) {
	start := t.at
	if len(t.data)-start >= 8 {
		if v, ok := eight(binary.LittleEndian.Uint64(t.data[start:])); ok {
			value, t.at = v, start+8
		}
	}
	for ; t.at < len(t.data) && t.at-start < 16; t.at++ {
		d := t.data[t.at] - '0'
		if d > 9 {
			break
		}
		value = value*10 + uint64(d)
	}
	digits = t.at - start
	if digits > 15 || digits > 1 && t.data[start] == '0' {
		return 0, 0
	}
	return value, digits
}

// eight reads eight decimal digits, the first in the lowest byte, by adding
// neighbours up: pairs, then fours, then all.
func eight(x uint64) (value uint64, ok bool) {
	const each = 0x0101010101010101
	x ^= '0' * each // a digit's byte is 0 to 9 now
	if (x|(x+0x76*each))&(0x80*each) != 0 {
		return 0, false
	}
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	return (x*10000 + x>>32) & 0xffffffff, true
}

// seconds reads a time without exponent, of at most 30 digits.
func (t *template) seconds(l *Listing) bool {
	start := t.at
	whole, digits := t.digits()
	if digits == 0 {
		return false
	}
	scale := uint64(1)
	if t.skip(`.`) {
		point := t.at
		for ; t.at < len(t.data) && t.at-start <= 30; t.at++ {
			d := t.data[t.at] - '0'
			if d > 9 {
				break
			}
			if digits++; digits < 19 { // so that neither overflows
				whole, scale = whole*10+uint64(d), scale*10
			}
		}
		if t.at == point || t.at-start > 30 {
			return false
		}
	}
	s := float64(whole) / float64(scale)
	if digits > 18 || whole > 1<<53 {
		var err error
		if s, err = strconv.ParseFloat(string(t.data[start:t.at]), 64); err != nil {
			return false
		}
	} // else both are exact as float64, and the quotient is the nearest one
	l.Since = s
	return s <= latest
}
