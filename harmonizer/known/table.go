package known

// none is an invalid number.
const none = ^uint32(0)

// table finds numbers by hash, in eight bytes each: open addressing, linear probing, no
// tombstones. It has no keys, so the caller compares what it finds. Hashes are keyed, so that
// a sender cannot make them collide.
type table struct {
	entries []uint64 // the upper half of a hash, and number+1; 0: free
	len     int
}

// probe is a position in a table.
type probe struct{ at, tag uint32 }

func (t *table) probe(hash uint64) probe {
	tag := uint32(hash >> 32)
	return probe{at: tag & uint32(len(t.entries)-1), tag: tag}
}

// next returns the next number whose hash has the same upper half.
func (t *table) next(p *probe) (number uint32, ok bool) {
	if len(t.entries) == 0 {
		return 0, false
	}
	mask := uint32(len(t.entries) - 1)
	for {
		e := t.entries[p.at&mask]
		p.at++
		if e == 0 {
			return 0, false
		}
		if uint32(e>>32) == p.tag {
			return uint32(e) - 1, true
		}
	}
}

// addNumber adds a number below none under a hash.
func (t *table) addNumber(hash uint64, number uint32) {
	if t.len >= len(t.entries)/4*3 {
		t.grow()
	}
	t.putEntry(hash&^(1<<32-1) | uint64(number+1))
	t.len++
}

func (t *table) putEntry(entry uint64) {
	mask := uint32(len(t.entries) - 1)
	at := uint32(entry>>32) & mask
	for t.entries[at] != 0 {
		at = (at + 1) & mask
	}
	t.entries[at] = entry
}

func (t *table) grow() {
	old := t.entries
	t.entries = make([]uint64, max(16, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			t.putEntry(e)
		}
	}
}

func (t *table) remove(hash uint64, number uint32) {
	mask := uint32(len(t.entries) - 1)
	entry := hash&^(1<<32-1) | uint64(number+1)
	at := uint32(entry>>32) & mask
	for t.entries[at] != entry {
		if t.entries[at] == 0 {
			return
		}
		at = (at + 1) & mask
	}
	t.len--
	// Close the gap: move up following entries, unless they are at or behind their home
	// position.
	for next := (at + 1) & mask; t.entries[next] != 0; next = (next + 1) & mask {
		home := uint32(t.entries[next]>>32) & mask
		if (next-home)&mask >= (next-at)&mask {
			t.entries[at] = t.entries[next]
			at = next
		}
	}
	t.entries[at] = 0
}

// backlog is a queue of numbers to free, first in, first out. Only released numbers leave it.
type backlog struct {
	numbers  []uint32
	head     int
	released int
}

func (b *backlog) putNumber(number uint32) { b.numbers = append(b.numbers, number) }

// release allows all current numbers to leave.
func (b *backlog) release() { b.released = len(b.numbers) }

// takeReleased returns a part of the released numbers, so that a large number takes many calls.
func (b *backlog) takeReleased() []uint32 {
	n := b.released - b.head
	n = min(n, max(n/8, 4096))
	out := b.numbers[b.head : b.head+n]
	b.head += n
	if b.head == len(b.numbers) { // out stays unchanged until the next putNumber
		b.numbers, b.head, b.released = b.numbers[:0], 0, 0
	}
	return out
}
