package message

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
)

// decoder decodes one heartbeat in one pass, in any form that encoding/json reads. Keys are exact. By the rules of
// strictjson.Lenient, an object in which a known key is given twice is not readable, and a heartbeat with two nodes or two lists is
// refused, as one without.
type decoder struct {
	scanner
	agent    bool // see Fields
	f        Fields
	reader   *Heartbeats // nil: no marks
	listings []Listing
	unread   *UnreadError // nil: each object is readable
}

// heartbeat decodes the whole message. It finds repeated objects only if the node comes before the list. After a *FieldError the
// result has the node alone, if it is readable.
func (d *decoder) heartbeat(last func(node []byte) []Mark) (r Reading, err error) {
	if len(d.data) > maxBytes {
		return r, fmt.Errorf("decode heartbeat: %w: %d bytes, limit %d", errTooLong, len(d.data), maxBytes)
	}
	if !d.next('{') {
		return r, fmt.Errorf("decode heartbeat: %w", errNotObject)
	}
	d.f = d.fields()
	valid := d.members(&r, last) && d.space() == 0 && d.at == len(d.data)
	if !valid {
		r.Node = nil
	}
	switch {
	case d.f.Err != nil:
		return r, fmt.Errorf("decode heartbeat: %w", d.f.Err)
	case !valid:
		return r, fmt.Errorf("decode heartbeat: %w: invalid at byte %d", errNotObject, d.at)
	}
	r.Listings = d.listings
	if d.unread != nil {
		return r, d.unread
	}
	return r, nil
}

// fields returns a decoder of single values.
func (d *decoder) fields() Fields { return Fields{scanned: true, agent: d.agent} }

// members decodes the object behind its first brace. It returns false if the object is not valid JSON, or too long.
func (d *decoder) members(r *Reading, last func(node []byte) []Mark) bool {
	named, listed := 0, 0
	valid := d.object(func(key []byte) bool {
		switch {
		case string(key) == "dea" && named == 0:
			named++
			return d.node(r)
		case string(key) == "droplets" && listed == 0:
			var marks []Mark
			if last != nil && r.Node != nil {
				marks = last(r.Node)
			}
			listed++
			return d.list(marks)
		case string(key) == "dea":
			r.Node = nil
			d.f.Fail("dea", "is given twice")
		case string(key) == "droplets":
			d.f.Fail("droplets", "is given twice")
		}
		return d.value() != nil
	})
	if valid && named == 0 {
		d.f.Fail("dea", "is missing")
	}
	if valid && listed == 0 {
		d.f.Fail("droplets", "is missing")
	}
	return valid
}

// node decodes the name of the node. It returns false if it is not valid JSON.
func (d *decoder) node(r *Reading) bool {
	f, raw := d.fields(), d.value()
	if raw == nil {
		return false
	}
	if name := f.required("dea", raw); f.Err == nil {
		r.Node = name
	} else {
		d.f.failIn("", f)
	}
	return true
}

// list decodes the list of objects. Object k is likely object k of the last heartbeat, shifted by
// one for each object that is gone.
func (d *decoder) list(last []Mark) bool {
	if !d.next('[') {
		raw := d.value()
		if raw != nil {
			d.f.Fail("droplets", "is not a list")
		}
		return raw != nil
	}
	if d.next(']') {
		return true
	}
	for guess := 0; ; guess++ {
		if d.position() == MaxBeats {
			d.f.Fail("droplets", fmt.Sprintf("has more than %d elements", MaxBeats))
			return false
		}
		d.listings = append(d.listings, Listing{Repeats: -1})
		l := &d.listings[len(d.listings)-1]
		start := d.at
		mark, next := d.repeated(last, guess)
		if next > 0 {
			guess = next - 1
			l.Repeats, l.Mark = guess, last[guess]
		} else if read, valid := d.listing(l); !valid {
			return false
		} else if !read {
			d.listings, guess = d.listings[:len(d.listings)-1], guess-1
		} else if d.reader != nil {
			l.Mark = d.mark(start, mark)
		}
		if !d.next(',') {
			return d.next(']')
		}
	}
}

// repeated returns the position, from 1, of the last mark that equals the next object, and
// skips the object. It tries only guess and the next position. If neither matches, it returns
// the mark of the bytes that it hashed.
func (d *decoder) repeated(last []Mark, guess int) (mark Mark, place int) {
	for i := guess; i < min(guess+2, len(last)); i++ {
		m := last[i]
		if m.Len == 0 || int(m.Len) > len(d.data)-d.at {
			continue
		}
		if m.Len != mark.Len {
			mark = Mark{Sum: d.sum(d.at, d.at+int(m.Len)), Len: m.Len}
		}
		if mark.Sum == m.Sum {
			d.at += int(m.Len)
			return mark, i + 1
		}
	}
	return mark, 0
}

// mark returns the mark of the decoded object, which may be computed.
func (d *decoder) mark(start int, computed Mark) Mark {
	if int(computed.Len) == d.at-start {
		return computed
	}
	return Mark{Sum: d.sum(start, d.at), Len: uint32(d.at - start)}
}

func (d *decoder) sum(start, end int) uint64 {
	return maphash.Bytes(d.reader.seeds[0], d.data[start:end])
}

// Positions of the values of one object.
const (
	atPartition = iota
	atApp
	atVersion
	atInstance
	atIndex
	atState
	atSince
	atUnready
)

// beatKeys are the keys of the values.
var beatKeys = [...]string{"cc_partition", "droplet", "version", "instance", "index", "state", "state_timestamp", "unready"}

// beatValues is the text of the values; nil: absent.
type beatValues [len(beatKeys)]json.RawMessage

// listing decodes one object. It is not read if a value is not usable, and not valid if it is no JSON.
func (d *decoder) listing(l *Listing) (read, valid bool) {
	start := d.at
	if !d.usual(l) {
		d.at, *l = start, Listing{Repeats: -1}
		if read, valid = d.unusual(l); !read {
			return read, valid
		}
	}
	l.Foreign = d.reader != nil && d.reader.partition != "" && string(l.Partition) != d.reader.partition
	return true, true
}

// position returns the number of the objects so far.
func (d *decoder) position() int {
	if d.unread == nil {
		return len(d.listings)
	}
	return len(d.listings) + d.unread.Objects
}

// usual decodes an object in the form that encoding/json produces. For any other object it returns false without an error, and
// listing starts again.
func (d *decoder) usual(l *Listing) bool {
	if !d.skip(`{`) {
		return false
	}
	if d.skip(`"cc_partition":"`) {
		if l.Partition = d.plain(); l.Partition == nil || !d.skip(`,`) {
			return false
		}
	}
	return d.skip(`"droplet":`) && d.id(&l.App) && len(l.App.Raw) > 0 && d.skip(`,"version":`) && d.id(&l.Version) && (!d.agent || l.Version.Raw != nil) &&
		d.skip(`,"instance":`) && d.id(&l.Instance) && len(l.Instance.Raw) > 0 && d.skip(`,"index":`) && d.index(l) &&
		d.skip(`,"state":"`) && d.state(l) && d.skip(`,"state_timestamp":`) && d.seconds(l) && d.unready(l) && d.skip(`}`)
}

// unready decodes the optional last value.
func (d *decoder) unready(l *Listing) bool {
	l.Unready = d.skip(`,"unready":true`)
	return true
}

// id decodes a string or a whole number.
func (d *decoder) id(t *Text) bool {
	switch rest := d.data[d.at:]; {
	case len(rest) <= uuidLen+1 || rest[0] != '"':
	case rest[hexLen+1] == '"':
		t.Raw = rest[1 : hexLen+1]
		t.ID = packHex(t.Raw)
	case rest[uuidLen+1] == '"':
		t.Raw = rest[1 : uuidLen+1]
		t.ID = packUUID(t.Raw)
	}
	if t.ID.Form == FormHex || t.ID.Form == FormUUID {
		d.at += len(t.Raw) + 2
		return true
	}
	f, raw := d.fields(), d.value()
	*t = PackText(f.token("", raw))
	return raw != nil && f.Err == nil
}

func (d *decoder) index(l *Listing) bool {
	n, places, length := number(d.data[d.at:])
	if length == 0 || length > exact || places > 0 || n >= MaxInstances {
		return false
	}
	l.Index, d.at = uint32(n), d.at+length
	return true
}

func (d *decoder) state(l *Listing) bool {
	l.State = d.plain()
	return 0 < len(l.State) && len(l.State) <= MaxID
}

// seconds divides numbers that are exact as float64 if possible, so that the quotient is the nearest float64.
func (d *decoder) seconds(l *Listing) bool {
	n, places, length := number(d.data[d.at:])
	if 0 < length && length <= exact && n <= 1<<53 {
		l.Since, d.at = float64(n)/powers[places], d.at+length
		return l.Since <= latest
	}
	f, raw := d.fields(), d.value()
	l.Since = f.seconds("", raw)
	return raw != nil && f.Err == nil
}

// powers are the powers of 10. An exact number has at most 17 decimal places.
var powers = [exact - 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17}

// unusual decodes an object in any form.
func (d *decoder) unusual(l *Listing) (read, valid bool) {
	var v beatValues
	f := d.fields()
	switch {
	case d.next('{'):
		known := func(key []byte) bool {
			i, raw := slices.Index(beatKeys[:], string(key)), d.value()
			if i >= 0 && v[i] != nil {
				f.Fail(beatKeys[i], "is given twice")
			}
			if i >= 0 {
				v[i] = raw
			}
			return raw != nil
		}
		if !d.object(known) {
			return false, false
		}
	case d.value() == nil:
		return false, false
	default:
		f.Fail("", "is not an object")
	}
	if f.Err == nil {
		l.Partition = f.bytes("cc_partition", v[atPartition])
		l.App = PackText(f.required("droplet", v[atApp]))
		l.Version = PackText(f.version("version", v[atVersion]))
		l.Instance = PackText(f.required("instance", v[atInstance]))
		l.Index = uint32(f.index("index", v[atIndex]))
		l.State = f.required("state", v[atState])
		l.Since = f.seconds("state_timestamp", v[atSince])
		l.Unready = f.flag("unready", v[atUnready])
	}
	if f.Err == nil {
		return true, true
	}
	var where Fields
	where.failIn(fmt.Sprintf("droplets[%d]", d.position()-1), f)
	if d.unread == nil {
		d.unread = &UnreadError{First: where.Err}
	}
	d.unread.Objects++
	return false, true
}
