// Package shadow compares the nudges that we would send with those of another harmonizer. It
// is the shadow mode of the classic health manager, but compares meanings instead of message
// bytes.
//
// A nudge is split into acts: a start into its indices, a stop into its instances. An act
// matches the same act of the other side within the window, before or after. The app must be
// the same, and for a start also the version. An act may match many: a repeat within the
// window is no mismatch. An act without a match after the window is a Mismatch.
//
//	m := shadow.New(shadow.Config{}.WithDefaults())
//	m.Own(now, nudge)      // our decision, not sent
//	m.Received(now, nudge) // from the bus
//	for _, alone := range m.Due(now) { ... }
//
// A Matcher must be used by one goroutine at a time, and now must not go back.
package shadow
