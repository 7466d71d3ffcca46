// Package awstrial implements "weir-local aws": a trial of pools on AWS without AWS. One process serves the API of AWS
// from package awsfake and an S3 bucket on one address of loopback. A file describes Auto Scaling groups and Spot Fleet
// requests. The clock of the server is the real one. Faults are commands: they reach the process over a socket in the
// data folder, which only this user can open.
//
// [Command] returns the commands. A process serves one trial; its requests run concurrently.
package awstrial
