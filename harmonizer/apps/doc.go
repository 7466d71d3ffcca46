// Package apps decides which app instances to start and which to stop: a
// [Machine] is told what happens, one [Event] at a time, and answers with the
// nudges to send and the findings that explain them. It is pure: time comes in
// as an argument and only differences of it count, so that a monotonic clock,
// or a virtual one, drives it.
//
//	m := apps.NewMachine(apps.Config{}.WithDefaults())
//	nudges, findings := m.Step(now, apps.Heartbeat{Data: data})
//
// Two states are compared. The expected state is the rows of a source; it is
// complete after ExpectedComplete, for as long as that says, or until
// ExpectedLost. The known state is what nodes say in heartbeats and exits, see
// harmonizer/known; it is complete once the bus has been up for a heartbeat
// period and a tenth, and the nodes that another machine heard before are heard
// or given up. While either is incomplete nothing is started and nothing is
// stopped; a lost source deletes no row, and a row that is not told, stopped or
// unreadable never starts anything. A machine nudges only between Lead and
// Follow; otherwise it hears, counts and explains.
//
// What happens marks indices; each is judged by the rules, all of them each time:
// what it should be follows from the row, the copies and what is remembered of
// the index. The rules, each a function of the file that is named for it:
//   - missing: an index without a copy of the live version wants a start. How the
//     last copy ended tells how urgently (exit_crashed, exit_stopped,
//     exit_shutdown).
//   - crash: the first crash is answered at once, those that follow it later and
//     later (flapping), then never (give_up), until it ran well for long (decay).
//   - evacuation: a copy that will end is replaced before.
//   - extra: copies of a stopped app, beyond its instances, of another version, or
//     of no app are stopped (extra_state, extra_index, extra_version, extra_app).
//   - duplicate: of several copies on one index one survives.
//   - hold: what a nudge waits for (keep_alive, reset_grace, update_required,
//     package_state).
//   - fresh: freshness, above. send: the queue, its rate, and follow. brake: many
//     lost at once are rather a fault of ours. rowloss: many rows gone at once are
//     rather a fault of the source; until they are back, or an operator says so,
//     nothing is stopped for want of a row.
//
// What waits for its turn is judged again before it is sent. Every finding carries
// its rule, its reason and its deadline; Explain answers with the same values at
// any time.
//
// What is due is found by deadline, and only while a Tick is handled: whatever
// was heard before is to be told first. Work is in proportion to what changed,
// memory to what is in trouble: a healthy index costs nothing here. A Step takes
// in a bounded amount; while the machine is Busy, the next one goes on, and
// nothing is nudged.
//
// A Machine has one owner: no method may run beside another.
package apps
