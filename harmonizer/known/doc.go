// Package known has the known state: what nodes report that they run. It has the copies of
// each app at each index, with node, state and the time of the last heartbeat. It is pure:
// time is an argument, and only differences count.
//
//	s := known.New(known.Config{DropletLost: 30 * time.Second})
//	err := s.Heartbeat(now, node, data) // the node in the subject
//	s.Tick(now)
//	for _, c := range s.Changes() { ... }
//
// The rules for copies and nodes:
//   - A node lives while it sends heartbeats. If it is silent for longer than
//     DropletLost, it is lost with all its copies.
//   - A copy that its living node omits is lost after the same time, unless the node
//     lists it again. A copy omitted from a partial heartbeat stays. A
//     heartbeat of which a part is unreadable is partial.
//   - An id that is listed under another app, index or version is a new copy, and the
//     old one is lost. An id that another node lists moves to that node.
//   - If one heartbeat lists an id twice, the first entry counts.
//   - A node is a name in a pool. Nodes of one name in two pools never mix, nor does a legacy DEA of
//     that name: it has no pool. The pool is that of the subject.
//   - A copy in an unknown state, or CRASHED, is known in that state.
//
// A Store has one owner: its methods must not run concurrently.
package known
