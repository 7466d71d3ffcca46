package known

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// node is a machine that sends heartbeats. Its copies are lost with it.
type node struct {
	node   message.Node
	number uint32
	last   instant // time of the last heartbeat
	beats  uint32  // number of heartbeats
	copies uint32  // listed and absent ones
	marks  []message.Mark
	// sum of the last heartbeat, while repeating it would change nothing.
	sum       message.Sum
	summed    bool
	partial   bool
	lost      bool
	refusedAt instant // when a copy was last refused; 0: never
}

// checkSender returns an error if a heartbeat names another node than its subject has. The legacy subject has no node.
func checkSender[T string | []byte](from message.Node, name T) error {
	if from.Name != "" && from.Name != string(name) {
		return &message.FieldError{Field: "dea", Problem: "is not the node of the subject"}
	}
	return nil
}

// nodes has the nodes by number, by name, and by the sum of their last heartbeat.
type nodes struct {
	items  []*node // nil: free
	byName map[message.Node]uint32
	bySum  table
	free   []uint32
	lost   []uint32     // changes may still refer to these
	sender message.Node // the node of the last heartbeat
	from   string       // the pool of the heartbeat that is being read
}

// withSum returns the node of a pool whose last heartbeat has this sum.
func (s *nodes) withSum(pool string, sum message.Sum) *node {
	for p := s.bySum.probe(sum[0]); ; {
		number, ok := s.bySum.next(&p)
		if !ok {
			return nil
		}
		if n := s.items[number]; n.sum == sum && n.node.Pool == pool {
			return n
		}
	}
}

func (s *nodes) keepSum(n *node, sum message.Sum) {
	n.sum, n.summed = sum, true
	s.bySum.addNumber(sum[0], n.number)
}

// dropSum makes the store parse the node's next heartbeat, even if it repeats the last one.
func (s *nodes) dropSum(n *node) {
	if n.summed {
		n.summed = false
		s.bySum.remove(n.sum[0], n.number)
	}
}

// marks returns the marks of a node of the pool that is being read, nil if it is unknown.
func (s *nodes) marks(name []byte) []message.Mark {
	if n := s.find(s.from, name); n != nil {
		return n.marks
	}
	return nil
}

// find returns a node of a pool by name, nil if it is unknown.
func (s *nodes) find(pool string, name []byte) *node {
	if number, ok := s.byName[message.Node{Pool: pool, Name: string(name)}]; ok {
		return s.items[number]
	}
	return nil
}

func (s *nodes) addNode(name message.Node, at instant) *node {
	if len(s.free) == 0 {
		s.items = append(s.items, nil)
		s.free = append(s.free, uint32(len(s.items)-1))
	}
	number := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	n := &node{node: name, number: number, last: at}
	s.items[number], s.byName[name] = n, number
	return n
}

func (s *nodes) beat(n *node, at instant) {
	n.last = max(n.last, at)
	n.beats++
	s.sender = n.node
}

// leave removes a copy from its node. The node's next heartbeat, and the copy's object in it,
// are parsed, so that the same content brings the copy back.
func (s *nodes) leave(n *node, r *record) {
	n.copies--
	s.dropSum(n)
	if r.place != none {
		n.marks[r.place] = message.Mark{Owner: none}
		r.place = none
	}
}

// lose removes a node. Its number is free after release.
func (s *nodes) lose(n *node) {
	s.dropSum(n)
	delete(s.byName, n.node)
	n.lost = true
	s.lost = append(s.lost, n.number)
}

func (s *nodes) release() {
	for _, number := range s.lost {
		s.items[number] = nil
	}
	s.free = append(s.free, s.lost...)
	s.lost = s.lost[:0]
}
