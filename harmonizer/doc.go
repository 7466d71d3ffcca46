// Package harmonizer keeps applications running: it hears what nodes run,
// compares it with what should run, and nudges whoever can start and stop.
//
//	h, err := harmonizer.New(cfg, harmonizer.Ports{Bus: bus, Source: rows, Metrics: store}, log)
//	err = h.Run(ctx)
//
// All rules are in package apps; this one owns its Machine in a single
// goroutine, feeds it what the ports tell, sends the nudges, publishes instance
// counts and writes them as metrics. The ports' implementations for NATS are in
// package natsbus.
//
// Run may be called once. The other methods may be used concurrently, while Run
// runs.
package harmonizer
