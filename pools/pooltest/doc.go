// Package pooltest is the conformance suite of [pools.Group] and of the optional interfaces of
// groups and providers: [pools.Repairer], [pools.Isolator], [pools.Inspector] and [pools.RepairOwner]. It
// tests the promises in their comments. Every provider runs it, also the one in memory.
//
//	func TestConformance(t *testing.T) {
//		pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness { ... })
//		pooltest.RunRepairer(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.RepairerHarness { ... })
//	}
//
// The suite waits for events with a deadline. The harness passes the time: it advances a fake
// clock, or waits in real time.
package pooltest
