package message

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"strconv"

	"github.com/weirkeeper/weirkeeper/api"
)

// template decodes the usual form of a heartbeat. It returns false at anything unexpected, and
// DecodeHeartbeat decides then. What template accepts, DecodeHeartbeat accepts with the same
// values.
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

// head decodes up to the first object. It returns what must follow the list.
func (t *template) head() (node, tail []byte, ok bool) {
	if t.skip(`{"dea":`) {
		node, ok = t.id()
		return node, t.data[len(t.data)-1:], ok && len(node) > 0 && t.skip(`,"droplets":[`) && t.data[len(t.data)-1] == '}'
	}
	// The node comes last. Decoding the list proves where it ends.
	const before, after = `,"dea":`, `}`
	i := bytes.LastIndex(t.data, []byte(before))
	if i < 0 || !t.skip(`{"droplets":[`) {
		return nil, nil, false
	}
	end := template{data: t.data, at: i + len(before)}
	node, ok = end.id()
	return node, t.data[i:], ok && len(node) > 0 && string(t.data[end.at:]) == after
}

// list decodes the objects up to the end of the list. Object k is likely object k of the last
// heartbeat, shifted by one for each object that is gone.
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

// repeated returns the position, from 1, of the last mark that equals the next object, and
// skips the object. It tries only guess and the next position. If neither matches, it returns
// the mark of the bytes that it hashed.
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

// mark returns the mark of the decoded object, which may be computed.
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

// partition decodes the object up to the app.
func (t *template) partition(l *Listing) bool {
	if t.skip(t.reader.ownPrefix) {
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
		l.State = t.data[start : start+len(api.CopyRunning)]
		return true
	}
	var ok bool
	l.State, ok = t.text()
	return ok && len(l.State) > 0 && t.skip(`,"state_timestamp":`)
}

// skip advances past the expected text. It returns false if the text differs.
func (t *template) skip(expected string) bool {
	end := t.at + len(expected)
	if end > len(t.data) || string(t.data[t.at:end]) != expected {
		return false
	}
	t.at = end
	return true
}

// packed decodes a string or a whole number. It checks and packs the two usual lengths in one
// step.
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

// id decodes a string or a whole number that is not negative.
func (t *template) id() ([]byte, bool) {
	if t.skip(`"`) {
		return t.text()
	}
	start := t.at
	_, digits := t.digits()
	return t.data[start:t.at], digits > 0
}

// text decodes the rest of a string of at most MaxID bytes without escapes.
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

// digits decodes a JSON whole number of at most 15 digits. It returns 0 digits if there is no
// valid one.
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

// eight decodes eight decimal digits, the first in the lowest byte. It combines neighbours:
// pairs, then fours, then all.
func eight(x uint64) (value uint64, ok bool) {
	const each = 0x0101010101010101
	x ^= '0' * each // each digit's byte is now 0 to 9
	if (x|(x+0x76*each))&(0x80*each) != 0 {
		return 0, false
	}
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	return (x*10000 + x>>32) & 0xffffffff, true
}

// seconds decodes a time without exponent, of at most 30 digits.
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
			if digits++; digits < 19 { // prevents overflow
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
	} // otherwise both are exact as float64, so the quotient is the nearest float64
	l.Since = s
	return s <= latest
}
