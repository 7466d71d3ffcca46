// Package cloudfoundry is what a harmonizer does in place of Cloud Foundry's health manager. [Features] selects from
// this list; internal/daemon/harmonizerd builds it from the harmonizer's file. Without it, a harmonizer sends and
// receives only the messages of package message.
//
//   - Features.LegacyDEAs: heartbeats and exits of DEAs, on the subjects that all DEAs share.
//   - Features.Dialect: nudges in the form that cloud controllers of the first protocol revision obey ([Sender]).
//   - Features.Requests: responses to the requests of controllers and tools (package report), and nudges of other
//     health managers ([DecodeNudge]).
//   - Features.Shadow: comparison with the nudges of another health manager ([Comparer], package shadow).
//   - Features.Component: the announcement to collectors, which read /varz ([Component], package varz).
//   - Features.Users: the number of users of a controller ([Users]).
//   - Package bulkapi: the expected state from a cloud controller. It is a harmonizer.Source.
//   - [File]: the keys of a health_manager.yml, which internal/config reads ([IgnoredKeys], [ChooseDialect]).
//
// The subjects of agents, health.start, health.stop, droplet.updated, and the JSON of heartbeats, exits and rows are the
// product's own, in package message, although Cloud Foundry has introduced them.
//
// A Comparer has one owner, the loop. Everything else may be used concurrently.
package cloudfoundry
