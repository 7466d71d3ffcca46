package queue

// chunk is the number of values in one allocation.
const chunk = 1 << 10

// slab stores values in chunks and returns their places. So lists of them need no allocation
// each, and growth copies nothing. Place 0 is invalid.
type slab[T any] struct {
	chunks [][]node[T]
	used   int32 // number of places ever used, including 0
	unused int32 // first free place; free places are linked by next
}

type node[T any] struct {
	value      T
	prev, next int32
}

// list is a doubly linked list of places of one slab.
type list struct{ head, tail int32 }

func newSlab[T any]() slab[T] { return slab[T]{used: 1} }

func (s *slab[T]) node(at int32) *node[T] { return &s.chunks[at/chunk][at%chunk] }

func (s *slab[T]) value(at int32) *T { return &s.node(at).value }

func (s *slab[T]) addValue(value T) int32 {
	at := s.unused
	if at != 0 {
		s.unused = s.node(at).next
	} else {
		at = s.used
		s.used++
		if int(at/chunk) == len(s.chunks) {
			s.chunks = append(s.chunks, make([]node[T], chunk))
		}
	}
	*s.node(at) = node[T]{value: value}
	return at
}

func (s *slab[T]) free(at int32) {
	*s.node(at) = node[T]{next: s.unused}
	s.unused = at
}

func (s *slab[T]) append(l *list, at int32) {
	n := s.node(at)
	n.prev, n.next = l.tail, 0
	if l.tail == 0 {
		l.head = at
	} else {
		s.node(l.tail).next = at
	}
	l.tail = at
}

func (s *slab[T]) prepend(l *list, at int32) {
	n := s.node(at)
	n.prev, n.next = 0, l.head
	if l.head == 0 {
		l.tail = at
	} else {
		s.node(l.head).prev = at
	}
	l.head = at
}

func (s *slab[T]) unlink(l *list, at int32) {
	n := s.node(at)
	if n.prev == 0 {
		l.head = n.next
	} else {
		s.node(n.prev).next = n.next
	}
	if n.next == 0 {
		l.tail = n.prev
	} else {
		s.node(n.next).prev = n.prev
	}
}
