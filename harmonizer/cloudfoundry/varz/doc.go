// Package varz serves /varz, the numbers of a harmonizer under the names of Cloud Foundry's health manager. A collector
// finds the address and the credentials in the announcement of a [cloudfoundry.Component].
//
//	mux.Handle("GET /varz", varz.Handler(component, h, users))
//
// A number that is unknown is 0, because collectors need numbers. A request waits for the harmonizer's loop for 2 s, and
// then gets the status 503. Requests without the credentials get the status 401. The handler may run concurrently.
package varz
