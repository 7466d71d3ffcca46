// Package apps decides which app instances to start and which to stop: a
// [Machine] is told what happens, one [Event] at a time, and answers with the
// nudges to send and the findings that explain them. It is pure: time comes in
// as an argument and only differences of it count, so that a monotonic clock,
// or a virtual one, drives it.
//
//	m := apps.NewMachine(apps.Config{}.WithDefaults())
//	nudges, findings := m.Step(now, apps.Heartbeat{...})
//
// Two states are compared. The expected state is the rows of a source; it is
// complete after ExpectedComplete and until ExpectedLost. The known state is
// what nodes say in heartbeats and exits; it is complete once the bus has been
// up for a heartbeat period and a tenth. While either is incomplete nothing is
// started and nothing is stopped; a lost source deletes no row.
//
// What is due is found by deadline, and only while a Tick is handled: whatever
// was heard before is to be told first. A Tick with nothing due costs a look at
// one deadline. Each event touches only the indices that it changes.
//
// The rules, each of an index below the app's instances ("desired"):
//   - It is missing if no copy of the live version is on a node. A missing index
//     is nudged at once, then not again for NudgeKeepAlive, unless a copy came
//     and went in between or the row changed its version.
//   - A node silent for longer than DropletLost loses all its copies; a copy
//     that its living node no longer lists is lost after the same time.
//   - EVACUATING copies, and states that we do not know, are copies that run.
//     A CRASHED one is not.
//   - After a crash it is nudged at once; crashes that follow one another
//     within FlappingTimeout, from number FlappingDeath+1 on, are answered after
//     MinRestartDelay, doubling up to MaxRestartDelay. There is no giving up.
//   - Copies of other versions are extra once one of the live version is
//     RUNNING, but EVACUATING ones are left to the drain that ends them. Two
//     copies of the live version are left alone.
//
// Copies on any other index are extra: at once if the row was deleted or set to
// fewer instances, after DropletLost if the app was never known, or is no longer
// in a complete source. A stop is repeated after NudgeKeepAlive.
//
// A Machine has one owner: no method may run beside another.
package apps
