// Package known keeps what nodes say they run: which copies of which apps at
// which index, on which node, in which state, and how long ago that was heard.
// It is pure: time comes in as an argument, and only differences of it count.
//
//	s := known.New(known.Config{DropletLost: 30 * time.Second})
//	err := s.Heartbeat(now, data)
//	s.Tick(now)
//	for _, c := range s.Changes() { ... }
//
// The rules of life and death:
//   - A copy lives as long as its node, which lives as long as it is heard: a
//     node silent for longer than DropletLost is lost with all its copies.
//   - A copy that its living node no longer lists is lost after the same time,
//     unless the node lists it again. A partial heartbeat drops nobody.
//   - An id that is listed under another app, index or version is another copy:
//     the former is lost. One that is listed by another node just moves there.
//   - Of an id that one heartbeat lists twice, the first place counts.
//   - A copy in a state that we do not know, CRASHED too, is known in that state.
//
// A Store has one owner: no method may run beside another.
package known
