// Package sigproto is the wire between the autoscaler and a signal, both ends:
// [Client] is the autoscaler's, [Listen] and [ServerConn] are the signal's. What
// follows is the whole specification of version 1; a signal can be written from
// it in any language. Its bytes are frozen: a change is a new version.
//
// # Process
//
// A signal is any executable. It is started with three arguments, NAMESPACE NAME
// APP, and listens on the Unix stream socket in the abstract namespace whose
// name is a NUL byte and then
//
//	{NAMESPACE}-{NAME}-{APP}-socket
//
// in UTF-8, with no NUL at the end, at most 107 bytes after the first (Python:
// sock.bind("\0" + name); Go: net.Listen("unix", "@"+name)). The arguments go
// into the name as they are. Whoever wants to know the application that it
// speaks for takes APP up to its first "~": a second process for one application
// on one host is told APP~1, so that it makes a socket of its own.
//
// It has 10 seconds to listen. With other arguments than three, or such that the
// name is too long, it writes its usage to standard error and ends with exit code
// 2; if it cannot listen, as when the name is taken, it says why and ends with 1.
// SIGTERM ends it with exit code 0, whatever is connected or computed; SIGKILL
// follows after 2 seconds, and may also come alone.
//
// What it writes to standard error becomes log lines. Standard output is for the
// handshake of a plugin (see Columnar body): a signal that is none writes nothing
// there.
//
// It accepts connections for as long as it runs, and serves each on its own (a
// thread, a goroutine): mostly there is one, but a second autoscaler, a new one
// beside an old one, or a probe that closes without a word come at any time, and
// must not wait for each other. The autoscaler keeps its connection for as long
// as nothing goes wrong on it. The end of a connection, expected or not, ends
// nothing but this connection.
//
// Whoever shares the network namespace can connect, and ask. So a signal answers
// nothing that is secret, and what comes on one connection changes no answer on
// another. It bears at least 16 of them at once; with more it may close those that
// it cannot bear, and goes on accepting. It may close a connection of another user
// at once: it serves at least its own user and root (SO_PEERCRED), and the user id in
// WEIR_SIGNAL_PEER of its environment, if that is there. Ours serves no other user, and
// at most 64 connections at a time.
//
// # Hello
//
// Right after connecting the autoscaler sends one JSON object of at most 1 MiB.
// It has no length, no terminator and no reply. The autoscaler sends the first LENGTH when
// the signal has read the hello, so a signal that reads it by one recv works. Another
// implementation of the autoscaler's end may not wait:
//
//	{"parameters":{...,"cluster":"C","pool":"P"},"cluster":"C","pool":"P"}
//
// The parameters are the author's own, of any JSON type. Cluster and pool stand
// among them; the two at the top level are the same again, for readers of
// another convention. Any of this may be missing, and null is as good as missing.
//
// A read may bring a part of the hello, a character cut in two, or the hello and
// the LENGTH that follows: a signal collects bytes, finds where the one JSON value
// ends (count braces and brackets outside of strings, mind the backslash), and
// keeps what follows as the beginning of the first evaluation. White space may
// stand before the hello. If it is longer than 1 MiB, no object, or not good, the
// signal closes the connection. Parameters that the signal cannot use do not make
// it bad: it refuses each evaluation (0x02), which the autoscaler sees and tells.
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
// LENGTH and BODY may come in any number of pieces; no byte of the BODY is sent
// before the first ACK. A LENGTH of 0 is acknowledged, and its body, which is no
// JSON object, refused. If the connection ends where a LENGTH may begin, the
// autoscaler has gone, which is no error.
//
// Between two evaluations, and before the first, minutes may pass: a signal waits
// for a LENGTH without a deadline. What has begun it may bound. Ours gives the
// hello a minute from the accept on, and LENGTH and BODY together a minute from
// the first byte of LENGTH. The autoscaler bounds an evaluation as a whole, from
// its connect to the end of the response; the signal is not told, and sees the
// connection close.
//
// An ACK of 0x02 is a refusal, and ends the evaluation without a response. In
// place of the first ACK it says that the length is more than the signal takes;
// a signal closes the connection then. The limit is its own choice: ours is 1 GiB,
// 64 MiB hold a day of a thousand series, and 8 MiB are the least to take. In
// place of the second ACK it says that there is no answer: the body was not good,
// or the signal failed on it; the signal goes on and reads the next LENGTH. The
// autoscaler takes a refusal as an error, never as "no opinion".
//
// # Body
//
// The body is one JSON object in UTF-8, without a byte order mark, with or without
// white space:
//
//	{"metrics":{"NAME":[[TIME,VALUE],...],...},"timestamp":NOW}
//
// NAME is the metric's name, without the application before it: of the metric that
// "weir metrics get" shows as "web,requests", app web gets "requests". Dimensions
// beside cluster and pool follow it, in order of their names:
// "instances_expected|app=web", "cpus|az=a,type=m5". TIME and NOW are whole unix
// seconds between -10^15 and 10^15; VALUE is a finite number. The points of a
// series stand from the oldest to the newest, equal times in order of value. A
// series may be empty, and so may "metrics". No key occurs twice in an object. NOW
// is the time to decide for, in place of the clock; a point may be later than it.
//
// A signal refuses a body in which "metrics" or "timestamp" is missing or null, or
// anything above is of another type. That names are different, points in order and
// times whole is promised by the autoscaler, and a signal need not look (ours
// refuses the first two, and cuts the fraction).
//
// # Response
//
// The response is one JSON object of at most 1 MiB, however it is split. It may
// arrive together with the ACK before it, and be surrounded by white space:
//
//	{"Resources":{"cpus":4,"mem":2048,"disk":null}}
//
// cpus are shares of a core, mem and disk megabytes, gpus devices. Each is a
// finite number of at least 0. A key that is null or absent has no opinion,
// which is not zero. The object "Resources" itself must be there. A signal whose
// formula gives less than 0 sends 0 if nothing is needed, and leaves the key out
// if the formula has no meaning there: the autoscaler clamps nothing. For the sake
// of peers that read once and at most 4096 bytes, a signal sends the second ACK
// and the response in one write of at most 4096 bytes.
//
// Two more keys may stand beside "Resources"; peers that do not know them ignore
// them. null and "" are as good as absent.
//
//	"Verdict"      "value" (as if absent): the resources are what is needed
//	               "no_opinion": the signal has none
//	               "stale": its data is too old for one
//	"Explanation"  a string: one line for people, how the answer came about
//
// With "no_opinion" and "stale" every resource is null or absent. A resource
// that is set beside them, a verdict of another name, and either key of another
// type are errors. What an explanation says never makes an answer bad: the
// receiver puts a space in place of each character that does not print (control,
// line break, formatting), and cuts what is longer than 1024 bytes of UTF-8.
//
// # Columnar body
//
// To a signal that offered it, and to no other, the autoscaler sends another form
// of body in place of the JSON, which carries only what is new. A signal offers it
// as a plugin of hashicorp/go-plugin: bootstrap starts it with the cookie of
// proto/signal/v1 in its environment, reads the handshake from its standard output,
// and calls Describe, whose "encodings" then hold "columnar". No signal needs this.
//
// It is told from JSON by its first byte. LENGTH, ACK and RESPONSE are as above,
// and a JSON body may come at any time: it stands for itself, and changes nothing
// of what follows here.
//
//	0xC1      1 byte
//	SEQUENCE  uvarint
//	NOW       varint, unix seconds
//	SERIES    uvarint, how many follow, at most 1048576
//	then for each series:
//	  LENGTH  uvarint, bytes of the name, at most 65535
//	  NAME    in UTF-8, not the same twice
//	  START   uvarint
//	  COUNT   uvarint
//	  TIMES   COUNT varints, unix seconds, each less the time of the point before it
//	  VALUES  COUNT times 8 bytes, IEEE 754 binary64, little-endian, finite
//
// A uvarint is an unsigned number of at most 64 bits in base 128: seven bits a
// byte, the lowest first, the high bit set in all bytes but the last (at most
// 10). A varint is a signed number n written as the uvarint 2n, or -2n-1 if n is
// negative. No time and no NOW is 10^15 or more, or -10^15 or less.
//
// The receiver holds, for this connection, the window of each series of the last
// columnar body. The new window of a series is what it holds without the START
// oldest points, and then the COUNT points of the body. A series that it does
// not hold begins empty, so that its START is 0; a START of all that it holds
// makes the window whole anew, as after a late point. The first time of a window
// is less 0; the first of those that are added is less the last that is kept.
// Times ascend and may repeat. A held series that the body does not name is gone.
//
// SEQUENCE 0 carries whole windows: the receiver forgets first all that it
// holds. SEQUENCE n+1 goes on from n, and is good only if the last columnar body
// on this connection was n and was good. Otherwise, and if anything in the body
// is not good, the receiver reads it to its end, forgets what it holds, answers
// 0x02 in place of the second ACK, and takes from then on only SEQUENCE 0. The
// sender takes a refusal of SEQUENCE n > 0 as this mismatch, and makes the
// evaluation once more with SEQUENCE 0, on the same connection, beginning with
// its LENGTH. A refusal of SEQUENCE 0 is a refusal. A body that is good counts,
// also if the signal then fails on it and refuses.
//
// # Mistakes
//
// Both ends: numbers follow the JSON grammar: 01, 1., .5, NaN and Infinity are
// errors, and so is what does not fit a float64, as 1e999. Strings do not stand in
// for numbers. Unknown keys are ignored; the end that reads them may log a warning.
// A length is checked before memory is taken for it, and memory grows with what
// has come. (Python: json.loads takes NaN, Infinity and 1e999 unless it is given
// parse_constant and parse_float, and, given bytes, UTF-16 too: decode UTF-8 first.)
//
// The signal closes the connection after a bad hello and a LENGTH that it refused,
// and goes on after every other refusal.
//
// The autoscaler swallows white space that a response left behind before the next
// ACK; any other byte that nobody asked for is an error. After any error, a
// refusal too, it closes the connection, and the next evaluation begins with a new
// one; the repetition of a columnar body is the only exception.
//
// # Concurrency
//
// A [Client] and a [ServerConn] are each for one goroutine at a time; several
// may be used at once. The listener may be closed while it accepts.
package sigproto
