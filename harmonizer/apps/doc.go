// Package apps decides which app instances to start and which to stop: a [Machine]
// takes one [Event] at a time and returns the nudges to send and the findings that
// explain them. It is pure: time comes in as an argument and only differences of it
// count, so that a monotonic clock, or a virtual one, drives it.
//
//	m := apps.NewMachine(apps.Config{}.WithDefaults())
//	nudges, findings := m.Step(now, apps.Heartbeat{Data: data})
//	explanation, ok := m.View().Explain(now, "web")
//
// Two states are compared. The expected state is the rows of a source; it is
// complete after ExpectedComplete, for as long as that says, or until
// ExpectedLost. The known state is what nodes report in heartbeats and exits, see
// harmonizer/known; it is complete once the bus has been up for a heartbeat
// period and a tenth, and each node that another machine knew before sent a heartbeat
// or is given up. While either is incomplete nothing is stopped, and nothing is
// started; but while only the expected state is, what ran before is started by the last
// complete one. A lost source deletes no row, and a row that is missing, stopped or
// unreadable never starts anything. A machine nudges only between Lead and
// Follow; otherwise it counts and explains.
//
// Events mark indices. The rules judge each of them, in the order of three lists in
// rules.go: verdictRules decide what an index should be, startRules and stopRules what
// a start or a stop waits for. Each part of a Machine owns the state of its rules:
//   - rows: the expected state. bus: whether the known state is complete.
//   - rules: the lists, as functions of a look, which is one index and its copies.
//   - backoff: a first crash is answered at once, those that follow it later and later
//     (flapping), then never (give_up), until the index ran for long (decay).
//   - disruptionLimit: many indices lost at once are rather a fault of ours.
//   - rowLoss: many rows gone at once are rather a fault of the source; until they are
//     back, the source confirms at most half of them, or an operator releases them,
//     nothing is stopped for want of a row.
//   - rowStops: many rows STOPPED or at 0 instances at once are rather one, too, until
//     the source confirms them, or an operator if they are more than half.
//   - gate: nothing leaves while a state is incomplete (freshness), while another
//     machine leads (follow) or while the limit holds.
//   - dispatch: the queues, their rate, and what was sent. What waits for its turn is
//     judged again before it is sent.
//   - memory: what survives a restart.
//   - inventory: the apps, the slots of their indices, and the sums.
//
// Every finding carries its rule, its reason and its deadline; Explain returns the
// same values at any time.
//
// What is due is found by deadline, and only while a Tick is handled: whatever was
// received before is to come first. Work is in proportion to what changed, memory to
// what is in trouble: a healthy index costs nothing here. A Step handles a bounded
// amount; while the machine is Busy, the next one goes on, and nothing is nudged.
//
// A Machine has one owner: no method may run beside another, nor beside a View's.
package apps
