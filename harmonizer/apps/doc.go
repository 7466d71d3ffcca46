// Package apps decides which app instances to start and which to stop. A [Machine] takes one
// [Event] at a time. It returns the nudges to send and the findings that explain them. It is
// pure: time is an argument and only differences count, so a monotonic or virtual clock can
// drive it.
//
//	m := apps.NewMachine(apps.Config{}.WithDefaults())
//	nudges, findings := m.Step(now, apps.Heartbeat{Data: data})
//	explanation, ok := m.View().Explain(now, "web")
//
// The machine compares two states. The expected state is the rows of a source. It is complete
// after ExpectedComplete, for the time in that event, or until ExpectedLost. The known state
// is what nodes report in heartbeats and exits; see harmonizer/known. It is complete after two
// conditions hold. The bus has been up for 1.1 heartbeat periods. Each node that the previous
// leader knew sent a heartbeat or was given up.
//
// While the known state is incomplete, nothing is started or stopped. While only the expected
// state is incomplete, the machine stops nothing. It then starts only what ran before, by the
// last complete state. A lost source deletes no row. A row that is missing, stopped or
// unreadable never starts anything. A machine sends nudges only between Lead and Follow;
// otherwise it counts and explains.
//
// Events mark indices. The rules evaluate each marked index, in the order of three lists in
// rules.go. verdictRules decide what an index should be; startRules and stopRules decide what
// a start or a stop waits for. Each part of a Machine owns the state of its rules:
//   - rows: the expected state.
//   - bus: whether the known state is complete.
//   - rules: the lists, as functions of an evaluation: one index and its copies.
//   - backoff: answers a first crash at once, further ones with a growing delay
//     (flapping), then not at all (give_up), until the index ran for long (decay).
//   - disruptionLimit: holds nudges after many indices were lost at once.
//   - rowLoss: after many rows were gone at once, stops nothing because of a missing
//     row. It ends when rows are back, when the source confirms rows that are at
//     most half of all, or by an operator's release.
//   - rowStops: holds stops after many rows turned STOPPED or to 0 instances at once,
//     until the source confirms them; above half of the apps, an operator must.
//   - gate: holds all nudges while a state is incomplete (freshness), while another
//     machine leads (follow) or while the limit holds.
//   - dispatch: the queues, their rate, and the sent nudges. A queued nudge is
//     evaluated again before it is sent. A start that waits at its scheduler is not
//     repeated.
//   - memory: what survives a restart.
//   - senders: the nodes whose statements do not count.
//   - inventory: the apps, the slots of their indices, and the sums.
//
// Every finding has its rule, its reason and its deadline. Explain returns the same values at
// any time.
//
// Deadlines are processed only in a Tick, after all earlier events. Work is proportional to
// what changed. Memory is proportional to what is in trouble: a healthy index costs nothing
// here. A Step does a bounded amount of work. While the machine is Busy, the next Step
// continues it, and no nudge is sent.
//
// A Machine has one owner: its methods, and those of its Views, must not run concurrently.
package apps
