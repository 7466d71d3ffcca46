// Package message is the vocabulary of the bus between nodes, harmonizer and
// whoever obeys its nudges: the JSON messages of Cloud Foundry's health manager
// as NATS carries them, and the row of an application's expected state.
//
// The structs are what we send. What we receive comes from strangers: ids may
// be numbers, times may be integers or fractions, fields may lack; the decoders
// in this package accept that, and refuse the rest with an error that names the
// field.
package message
