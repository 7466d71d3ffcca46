// Package pooltest is the conformance suite of [pools.Group]: what its comments
// promise, as tests. Every provider runs it, the one in memory too.
//
//	func TestConformance(t *testing.T) {
//		pooltest.Run(t, func(t *testing.T, s pooltest.Setup) pooltest.Harness { ... })
//	}
//
// The suite waits for events with a deadline. How time passes meanwhile is the
// harness's: a fake clock goes on, a real one is waited for.
package pooltest
