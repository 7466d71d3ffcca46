// Package sigproto is the wire protocol between the autoscaler and a signal, both ends. [Client] is the autoscaler's
// end. [Listen] and [ServerConn] are the signal's end. The following text is the complete specification of version 1: a
// signal can be written from it in any language. The bytes are frozen. A change is a new version.
//
// # Process
//
// A signal is any executable. Its three arguments are NAMESPACE NAME APP. It listens on a Unix stream socket in the
// abstract namespace. The name of the socket is a NUL byte followed by
//
//	{NAMESPACE}-{NAME}-{APP}-socket
//
// in UTF-8, without a NUL at the end, at most 107 bytes after the first (Python: sock.bind("\0" + name); Go:
// net.Listen("unix", "@"+name)). The arguments are used in the name unchanged. A signal that needs its application
// takes APP up to the first "~". An advisor gets APP~NAME. A second process for an application on one host gets APP~1 or
// APP~NAME~1, so that it has its own socket.
//
// The signal has 10 seconds to listen. If there are not exactly three arguments, or the name would be too long, it
// writes its usage to standard error and exits with code 2. If it cannot listen, for example because the name is in
// use, it writes the reason and exits with code 1. After SIGTERM it exits with code 0, also during a connection or a
// computation. SIGKILL follows after 2 seconds, and may also come alone.
//
// Lines on standard error become log lines. Standard output is for the handshake of a plugin (see Columnar body). A
// signal that is not a plugin writes nothing there.
//
// The signal accepts connections as long as it runs, and serves each independently (a thread, a goroutine). Usually
// there is one. A second autoscaler, a successor beside its predecessor, or a probe that closes without a message may
// connect at any time. Connections must not wait for each other. The autoscaler keeps its connection until an error.
// The end of a connection, expected or not, affects only that connection.
//
// Every process in the network namespace can connect and send requests. So an answer contains nothing secret, and a
// message on one connection changes no answer on another. A signal supports at least 16 connections at a time. It may
// close connections above its limit, and continues to accept. It may close a connection of another user at once. It
// serves at least its own user and root (SO_PEERCRED), and the user id in the variable WEIR_SIGNAL_PEER of its
// environment, if set. This implementation serves no other user, and at most 64 connections at a time.
//
// # Hello
//
// Right after connecting, the autoscaler sends one JSON object of at most 1 MiB. The object has no length, no
// terminator and no reply. The autoscaler sends the first LENGTH when the signal has read the hello, so reading it by
// one recv works. Another implementation of the autoscaler's end may not wait:
//
//	{"parameters":{...,"cluster":"C","pool":"P"},"cluster":"C","pool":"P","setpoint":0.7,"launch_seconds":240}
//
// The parameters are the author's own, of any JSON type. They include cluster and pool. The two keys at the top level
// have the same values, for readers of another convention. The setpoint is the share of its capacity that the pool should
// use, a number above 0: the pool's capacity is the sum of the requests divided by it. launch_seconds, a number above 0 and
// at most 86400, comes to advisors: 95 of 100 new machines of the pool joined it in that time, in whole minutes. New values come in the
// hello of a new connection. All keys may be missing. null is the same as missing.
//
// A read may return a part of the hello, a part of a character, or the hello and the following LENGTH. A signal
// collects bytes and finds the end of the JSON value (count braces and brackets outside of strings, with escapes). The
// bytes after it belong to the first evaluation. White space may precede the hello. If the hello is longer than 1 MiB,
// is not an object, or is invalid, the signal closes the connection. Parameters that the signal cannot use do not make
// the hello invalid: the signal refuses each evaluation (0x02), and the autoscaler reports that.
//
// # Evaluation
//
// After that, for each evaluation in turn:
//
//	autoscaler                          signal
//	LENGTH  4 bytes, big-endian    ──►
//	                               ◄──  ACK       1 byte, 0x01
//	BODY    LENGTH bytes           ──►
//	                               ◄──  ACK       1 byte, 0x01
//	                               ◄──  RESPONSE  one JSON object
//
// LENGTH and BODY may arrive in any number of pieces. No byte of the BODY is sent before the first ACK. A LENGTH of 0
// is acknowledged, and its body, which is not a JSON object, is refused. If the connection ends where a LENGTH may
// begin, the autoscaler has closed it. That is not an error.
//
// Before the first evaluation, and between two evaluations, minutes may pass: a signal waits for a LENGTH without a
// deadline. It may set a deadline for a message that has begun. This implementation allows a minute for the hello, from
// the accept. It allows a minute for LENGTH and BODY together, from the first byte of LENGTH. The autoscaler bounds an
// evaluation as a whole, from connect to the end of the response. It does not send that bound. It closes the
// connection.
//
// An ACK of 0x02 is a refusal. It ends the evaluation without a response. In place of the first ACK, it means that the
// length exceeds the signal's limit; the signal then closes the connection. Each signal chooses its limit. It is 1 GiB
// in this implementation, 64 MiB are enough for a day of a thousand series, and 8 MiB are the minimum. In place of the
// second ACK, it means that there is no answer: the body was invalid, or the signal failed on it. The signal then
// continues and reads the next LENGTH. The autoscaler treats a refusal as an error, never as "no opinion".
//
// # Body
//
// The body is one JSON object in UTF-8, without a byte order mark, with or without white space:
//
//	{"metrics":{"NAME":[[TIME,VALUE],...],...},"timestamp":NOW}
//
// NAME is the metric's name without the preceding application: for the metric that "weir metrics get" shows as
// "web,requests", app web gets "requests". Dimensions other than cluster and pool follow, sorted by name:
// "instances_expected|app=web", "cpus|az=a,type=m5". TIME and NOW are whole unix seconds between -10^15 and 10^15.
// VALUE is a finite number. With a resolution in the pool's file, a point is a slot of that length: TIME is the first second
// of the slot, a multiple of the resolution, and VALUE is the mean of its values. Only slots that have ended are sent, and
// none without a value. A second series, "NAME#count" (with dimensions "cpus|az=a#count"), has their number at the same
// times. The points of a series are sorted from oldest to newest; points with equal times are sorted
// by value. A series may be empty, and so may "metrics". No key repeats in an object. NOW is the time of the decision,
// in place of the clock. A point may be later than NOW.
//
// A signal refuses a body in which "metrics" or "timestamp" is missing or null, or any value has another type. The
// autoscaler guarantees unique names, sorted points and whole times. A signal need not check them (this implementation
// refuses violations of the first two, and cuts the fraction).
//
// # Response
//
// The response is one JSON object of at most 1 MiB, in any number of pieces. It may arrive together with the preceding
// ACK, and may be surrounded by white space:
//
//	{"Resources":{"cpus":4,"mem":2048,"disk":null}}
//
// cpus are CPU cores, mem and disk megabytes, gpus devices. Each is a finite number of at least 0. A key that is null
// or missing means no opinion, which is not zero. The object "Resources" is required. If a signal's formula yields less
// than 0, the signal sends 0 if nothing is needed, or omits the key if the formula has no meaning there: the autoscaler
// clamps nothing. Some peers read once and at most 4096 bytes. For them, a signal sends the second ACK and the response
// in one write of at most 4096 bytes.
//
// Two more keys may accompany "Resources". Peers that do not support them ignore them. null and "" are the same as
// missing.
//
//	"Verdict"      "value" (the default): the resources are needed
//	               "no_opinion": the signal has no opinion
//	               "stale": its data is too old for an opinion
//	"Explanation"  a string: one line for operators that explains the answer
//
// With "no_opinion" and "stale", every resource is null or missing. Errors are: a resource that is set beside them, a
// verdict of another name, and another type of either key. The content of an explanation never makes an answer invalid.
// The receiver replaces each non-printable character (control, line break, formatting) by a space. It cuts the text at
// 1024 bytes of UTF-8.
//
// # Columnar body
//
// For a signal that supports it, the autoscaler sends another form of body in place of the JSON, which contains only
// what is new. A signal announces the support as a plugin of hashicorp/go-plugin. Bootstrap starts it with the cookie
// of proto/signal/v1 in its environment, reads the handshake from its standard output, and calls Describe. The
// "encodings" in the response then contain "columnar". This form is optional.
//
// Its first byte distinguishes it from JSON. LENGTH, ACK and RESPONSE are as above. A JSON body may come at any time:
// it is complete, and changes no state of the following.
//
//	0xC1      1 byte
//	SEQUENCE  uvarint
//	NOW       varint, unix seconds
//	SERIES    uvarint: number of series, at most 1048576
//	then for each series:
//	  LENGTH  uvarint: bytes of the name, at most 65535
//	  NAME    in UTF-8, unique
//	  START   uvarint
//	  COUNT   uvarint
//	  TIMES   COUNT varints: unix seconds, each as the difference to the previous point
//	  VALUES  COUNT times 8 bytes, IEEE 754 binary64, little-endian, finite
//
// A uvarint is an unsigned number of at most 64 bits in base 128: seven bits a byte, the lowest first, the high bit set
// in all bytes but the last (at most 10). A varint is a signed number n, encoded as the uvarint 2n, or -2n-1 if n is
// negative. TIMES and NOW are less than 10^15 and greater than -10^15.
//
// For this connection, the receiver stores the window of each series of the last columnar body. The new window of a
// series is the stored one without its START oldest points, followed by the COUNT points of the body. A series that is
// not stored starts empty, so its START is 0. If START is the number of stored points, the window is replaced, as after
// a late point. The first time of an empty window is the difference to 0. The first added time is the difference to the
// last remaining one. Times ascend and may repeat. The receiver removes a stored series that the body does not name.
//
// SEQUENCE 0 carries complete windows: the receiver first removes everything stored. SEQUENCE n+1 continues n. It is
// valid only if the last columnar body on this connection was n and was valid. For any other sequence, and for any
// other error in the body, the receiver reads the body to its end and removes everything stored. It sends 0x02 in place
// of the second ACK, and from then on accepts only SEQUENCE 0. The sender treats a refusal of SEQUENCE n > 0 as such a
// mismatch. It repeats the evaluation with SEQUENCE 0 on the same connection, starting with its LENGTH. A refusal of
// SEQUENCE 0 is a refusal. A valid body counts, even if the signal then fails and refuses.
//
// # Errors
//
// For both ends: numbers follow the JSON grammar. 01, 1., .5, NaN and Infinity are errors, and so are numbers beyond
// the range of a float64, such as 1e999. A string is not accepted as a number. Unknown keys are ignored; the reader may
// log a warning. A length is checked before memory is allocated, and memory grows with the received bytes. (Python:
// json.loads accepts NaN, Infinity and 1e999 unless parse_constant and parse_float are set. It also accepts UTF-16
// bytes: decode UTF-8 first.)
//
// The signal closes the connection after an invalid hello and after a LENGTH that it refused. It continues after every
// other refusal.
//
// The autoscaler skips white space after a response before the next ACK. Any other unexpected byte is an error. After
// any error, including a refusal, it closes the connection, and the next evaluation uses a new one. The only exception
// is the repetition of a columnar body.
//
// # Concurrency
//
// A [Client] and a [ServerConn] are each for one goroutine at a time. Several may be used concurrently. The listener
// may be closed while it accepts.
package sigproto
