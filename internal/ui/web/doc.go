// Package web serves the pages for people: the fleet, a pool, its decisions, nodes, applications and events. It reads
// through a [Source] and [Details], and writes nothing: the forms of orders send them to the API of the same server.
//
// [New] returns a [Server], an http.Handler for all paths below "/". [Server.Run] fills it: it reads the summaries of the
// last day once, keeps about 20 values of each tick in memory, and follows new ticks. Without Run, and while the source is
// away, the pages report it. A page never reads the ledger for a plot. The page of a decision reads one record.
//
// All pages are complete without script. The content security policy allows only the style sheet and the script of the
// package. A Server is safe for concurrent use. The http.Server in front of it must have no WriteTimeout: it would end the
// streams of live pages, which set a deadline for each event.
package web
