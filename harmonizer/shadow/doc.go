// Package shadow compares what we would have asked for with what another
// harmonizer asks for: the shadow mode of the classic health manager, matched
// by meaning and not by the bytes of a message.
//
// A nudge is taken apart: a start into its indices, a stop into its instances.
// Each of these acts is matched by the same act of the other side not further
// than the window away, before or after: same app, and for a start the same
// version. An act may match many: a repeat inside the window is no mismatch.
// What finds no match until the window has passed is a Mismatch.
//
//	m := shadow.New(shadow.Config{}.WithDefaults())
//	m.Own(now, nudge)   // made here, not sent
//	m.Heard(now, nudge) // on the bus
//	for _, alone := range m.Due(now) { ... }
//
// A Matcher is used by one goroutine at a time, and now never goes back.
package shadow
