// Package pooltest is the conformance suite of [pools.Group] and of the optional interfaces of
// groups and providers: [pools.Mender], [pools.Isolator], [pools.Inspector] and [pools.Healer]. It
// tests the promises in their comments. Every provider runs it, also the one in memory.
//
//	func TestConformance(t *testing.T) {
//		pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness { ... })
//		pooltest.RunMender(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.MendHarness { ... })
//	}
//
// The suite waits for events with a deadline. The harness passes the time: it advances a fake
// clock, or waits in real time.
package pooltest
