// Package pooltest is the conformance suite of [pools.Group], and of what only some
// groups and providers can do: [pools.Mender], [pools.Isolator], [pools.Inspector] and
// [pools.Healer]. What their comments promise, as tests. Every provider runs them, the
// one in memory too.
//
//	func TestConformance(t *testing.T) {
//		pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness { ... })
//		pooltest.RunMender(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.MendHarness { ... })
//	}
//
// The suite waits for events with a deadline. How time passes meanwhile is the
// harness's: a fake clock goes on, a real one is waited for.
package pooltest
