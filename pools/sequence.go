package pools

// Sequence is the place of a request to a node among all such requests of the pool's writers: the
// epoch of the writer's lease, then the number of the request in that epoch. A request can arrive
// late, for example from a server that hung. A node rejects one that comes before a request that it
// has accepted. The zero value has no place and comes before none.
type Sequence struct {
	Epoch  uint64
	Number uint64
}

// Before reports whether s comes before t.
func (s Sequence) Before(t Sequence) bool {
	return s != Sequence{} && (s.Epoch < t.Epoch || s.Epoch == t.Epoch && s.Number < t.Number)
}
