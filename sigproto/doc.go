// Package sigproto is the wire between the autoscaler and a signal, both ends:
// [Client] is the autoscaler's, [Listen] and [ServerConn] are the signal's. What
// follows is the whole specification of version 1; a signal can be written from
// it in any language. Its bytes are frozen: a change is a new version.
//
// # Connection
//
// The signal listens on a Unix stream socket in the abstract namespace: a NUL
// byte and then
//
//	{namespace}-{name}-{app}-socket
//
// in UTF-8, with no NUL at the end, at most 107 bytes. It learns the three words
// as its arguments, in this order. The autoscaler connects, and keeps the
// connection for as long as nothing goes wrong on it. There may be several
// connections, one after another and at the same time.
//
// # Hello
//
// Right after connecting the autoscaler sends one JSON object. It has no length,
// no terminator and no reply:
//
//	{"parameters":{...,"cluster":"C","pool":"P"},"cluster":"C","pool":"P"}
//
// The parameters are the author's own, of any JSON type; cluster and pool stand
// among them and again at the top level, for readers of either convention. What
// follows may arrive in the same read: a signal decodes exactly one JSON value
// and keeps the remainder.
//
// # Evaluation
//
// Then, for each evaluation, in turn:
//
//	autoscaler                          signal
//	LENGTH  4 bytes, big-endian    ──►
//	                               ◄──  ACK       1 byte, 0x01
//	BODY    LENGTH bytes           ──►
//	                               ◄──  ACK       1 byte, 0x01
//	                               ◄──  RESPONSE  one JSON object
//
// An ACK of 0x02 is a refusal, and ends the evaluation without a response. In
// place of the first ACK it says that the length is more than the signal takes;
// a signal closes the connection then. In place of the second ACK it says that
// there is no answer: the body was not good, or the signal failed on it. The
// autoscaler takes a refusal as an error, never as "no opinion".
//
// The body is one JSON object. Its bytes may be broken anywhere in transit.
//
//	{"metrics":{"NAME":[[TIME,VALUE],...],...},"timestamp":NOW}
//
// TIME and NOW are unix seconds; VALUE is a finite number. The points of a
// series stand from the oldest to the newest, equal times in order of value. A
// series may be empty. No name and no key of these objects occurs twice.
//
// The response is one JSON object of at most 1 MiB, however it is split. It may
// arrive together with the ACK before it, and be surrounded by white space:
//
//	{"Resources":{"cpus":4,"mem":2048,"disk":null}}
//
// cpus are shares of a core, mem and disk megabytes, gpus devices. Each is a
// finite number of at least 0. A key that is null or absent has no opinion,
// which is not zero. The object "Resources" itself must be there. For the sake
// of peers that read once and at most 4096 bytes, a signal sends the second ACK
// and the response in one write of at most 4096 bytes.
//
// # Mistakes
//
// Numbers follow the JSON grammar: 01, 1., .5, NaN and Infinity are refused, and
// so is what does not fit a float64, as 1e999. Strings do not stand in for
// numbers. Unknown keys are ignored, with a warning. White space that a response
// left behind is swallowed before the next ACK; any other byte that nobody asked
// for is an error. After any error the autoscaler closes the connection, and the
// next evaluation begins with a new one. A length is checked before memory is
// taken for it, and memory grows with what has come.
//
// # Concurrency
//
// A [Client] and a [ServerConn] are each for one goroutine at a time; several
// may be used at once. The listener may be closed while it accepts.
package sigproto
