// Package message defines the messages on the bus between nodes, the harmonizer and the
// receivers of its nudges. They have the JSON of Cloud Foundry's health manager; its other
// messages are in package cloudfoundry. It also defines the row of an application's expected state.
//
// The structs are what we send. Received messages come from other programs and vary: ids may
// be numbers, times may be integers or fractions, fields may be missing. The decoders accept
// these variants. They reject everything else with an error that names the field.
package message
