// Package memory is a metrics store in the memory of this process, for tests and for simulations.
//
//	store := &memory.Store{}
//	err := store.Write(ctx, samples)
//
// It conforms to metrics.Store. It has no disk. It has no limit of the past or the future, and no bound of series. A Store may be used
// concurrently.
package memory
