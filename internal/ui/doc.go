// Package ui is the room of what people see: view reads the present state of a pool over the bus, apiserver serves it as
// JSON with tokens, and web draws the pages.
//
// A package may live here if it shows values of package api. It imports no loop and no daemon: the wiring of weir web is
// internal/daemon/webd. Texts about a tick are in internal/history, because commands and events have them too. This
// package has no code. Each package below states what may run concurrently.
package ui
