package signaltest

import "slices"

// Names of checks that others need.
const (
	listens          = "listens"
	answers          = "answers"
	reusesConnection = "keeps_connection"
	nothingAfter     = "nothing_after"
	helloWithLength  = "hello_with_length"
	unknownKeys      = "unknown_keys"
	splitBody        = "split_body"
	garbageBody      = "garbage_body"
	stdout           = "stdout"
	pluginStart      = "plugin_start"
)

// Checks returns all checks, in the order of execution.
func Checks() []Check {
	return slices.Concat(processChecks(), requestChecks(), answerChecks(), mistakeChecks(), pluginChecks())
}

func processChecks() []Check {
	return []Check{
		{Name: listens, Run: checkListens,
			What: "it listens on the abstract socket of its three arguments",
			Fix:  `listen on the Unix socket "\0NAMESPACE-NAME-APP-socket", of the last three arguments in this order`},
		{Name: "starts_soon", Needs: []string{listens}, Run: checkStartsSoon,
			What: "it listens within the time that bootstrap gives it",
			Fix:  "listen first, and load what the signal needs at the first request"},
		{Name: answers, Needs: []string{listens}, Run: checkAnswers,
			What: "it answers an evaluation after the hello",
			Fix:  "the hello has no length and no end of line: decode one JSON value; then read 4 bytes, ACK, read the body, ACK and answer"},
		{Name: "restart", Needs: []string{answers}, Run: checkRestart,
			What: "it starts again at the same address after kill -9",
			Fix:  "leave nothing behind that outlives a killed process: no lock file, no pid file, no socket in the file system"},
		{Name: "sigterm", Needs: []string{listens}, Run: checkSigterm,
			What: "SIGTERM ends it soon, with exit code 0, also while an autoscaler is connected",
			Fix:  "handle SIGTERM: close the listener and the connections, and exit with 0"},
		{Name: "usage", Needs: []string{listens}, Run: checkUsage,
			What: "wrong arguments end it with exit code 2 and its usage on standard error",
			Fix:  `without NAMESPACE NAME APP, print "usage: PROGRAM NAMESPACE NAME APP" to standard error and exit with 2`},
		{Name: stdout, Needs: []string{answers}, Run: checkStdout,
			What: "it writes nothing to standard output",
			Fix:  "write log lines to standard error: standard output is for go-plugin's handshake"},
		{Name: "distinct_app", Needs: []string{answers}, Run: checkDistinctApp,
			What: "started with APP~1, it has its own socket beside that of APP",
			Fix:  `use the third argument unchanged in the socket's name; if that is impossible, write "distinct_app: false" in the pool file: a new version then starts after the old one has ended`},
	}
}

func requestChecks() []Check {
	return []Check{
		{Name: helloWithLength, Needs: []string{answers}, Run: checkHelloWithLength,
			What: "it accepts the hello and the first length from one read",
			Fix:  "keep the bytes behind the hello's JSON value: they belong to the first evaluation"},
		{Name: unknownKeys, Needs: []string{answers}, Run: checkUnknownKeys,
			What: "it ignores unknown keys, in hello and body",
			Fix:  "do not refuse unknown keys: later versions add some"},
		{Name: "split_hello", Needs: []string{helloWithLength, unknownKeys}, Run: checkSplitHello,
			What: "it accepts a hello in two reads, with braces in its strings",
			Fix:  "collect bytes until the hello's braces and brackets outside of strings balance; decode the whole, not each read, as UTF-8"},
		{Name: splitBody, Needs: []string{answers}, Run: checkSplitBody,
			What: "it accepts a body in pieces",
			Fix:  "read until all bytes of the length have come: one read may return fewer"},
		{Name: "empty_window", Needs: []string{answers}, Run: checkEmptyWindow,
			What: "it answers when there are no metrics",
			Fix:  `answer {"Resources":{}}, no opinion, when a metric is not there`},
		{Name: "empty_series", Needs: []string{answers}, Run: checkEmptySeries,
			What: "it answers when metrics have no points",
			Fix:  `answer {"Resources":{}}, no opinion, when a window has no points, before reading the first or last point`},
		{Name: "huge_window", Needs: []string{splitBody}, Run: checkHugeWindow,
			What: "it accepts 100 series of 1440 points",
			Fix:  "accept a body of at least 8 MiB: read until all of it has come, in memory that grows with it, and answer within the limit"},
		{Name: "full_mantissas", Needs: []string{answers}, Run: checkFullMantissas,
			What: "it reads numbers of 17 digits, and with exponents",
			Fix:  "read numbers with a JSON library"},
		{Name: "second_connection", Needs: []string{answers}, Run: checkSecondConnection,
			What: "it answers a second autoscaler while the first is connected",
			Fix:  "serve each connection in a thread of its own, or poll them all"},
	}
}

func answerChecks() []Check {
	return []Check{
		{Name: "resources", Needs: []string{helloWithLength}, Run: checkResources,
			What: "its resources are finite numbers of at least 0",
			Fix:  `answer {"Resources":{"cpus":N,...}}; check each number before it is sent: leave out what is not known`},
		{Name: "verdict", Needs: []string{helloWithLength}, Run: checkVerdict,
			What: "its Verdict and its Explanation, if present, are valid",
			Fix:  `beside "Resources": "Verdict" is "value", "no_opinion" or "stale", the last two with no resource; "Explanation" is a string; omit both if unsure`},
		{Name: "answer_size", Needs: []string{answers}, Run: checkAnswerSize,
			What: "its second ACK and its response have at most 4096 bytes",
			Fix:  "keep the explanation short, or leave it out: Clusterman's autoscaler reads no more"},
		{Name: "one_write", Needs: []string{answers}, Run: checkOneWrite,
			What: "it sends the second ACK and the response in one write",
			Fix:  "put the byte 0x01 before the response, and send both at once: Clusterman's autoscaler reads once"},
		{Name: reusesConnection, Needs: []string{answers}, Run: checkKeepsConnection,
			What: "it answers again on the same connection",
			Fix:  "after the response, wait for the next length on the same connection"},
		{Name: nothingAfter, Needs: []string{reusesConnection}, Run: checkNothingAfter,
			What: "only white space follows its response",
			Fix:  "end with the response: any other byte is read as the ACK of the next evaluation"},
		{Name: "silence", Needs: []string{nothingAfter}, Run: checkSilence,
			What: "it keeps an idle connection for some seconds, before the first evaluation and after it",
			Fix:  "wait for a length without a deadline: minutes may pass. Set a deadline only for a message that has begun: the hello, or a length with its body"},
		{Name: "repeats", Needs: []string{nothingAfter}, Run: checkRepeats,
			What: "it gives the same answer to the same request, 100 times on one connection",
			Fix:  "decide from the windows and the timestamp of the body, not from the clock, from random numbers, or from earlier requests"},
	}
}

func mistakeChecks() []Check {
	return []Check{
		{Name: "nan_refused", Needs: []string{answers}, Run: checkNaN,
			What: "it refuses NaN and infinities with 0x02, and keeps running",
			Fix:  "refuse numbers that are not JSON, or not finite: send 0x02 in place of the second ACK"},
		{Name: garbageBody, Needs: []string{nothingAfter, splitBody}, Run: checkGarbageBody,
			What: "it refuses an invalid body with 0x02, and keeps the connection",
			Fix:  "when the body is invalid, send 0x02 in place of the second ACK, and wait for the next length"},
		{Name: "body_types", Needs: []string{garbageBody}, Run: checkBodyTypes,
			What: "it refuses a body in which something is missing, null, or of another type",
			Fix:  `check the body before use: "metrics" is an object of lists of [number, number], "timestamp" a number; send 0x02 if not`},
		{Name: "body_utf8", Needs: []string{garbageBody}, Run: checkBodyUTF8,
			What: "it refuses a body that is not UTF-8, or begins with a byte order mark",
			Fix:  `decode the body as UTF-8, and then as JSON: Python's json.loads guesses at bytes, so give it body.decode("utf-8")`},
		{Name: "garbage_length", Needs: []string{answers}, Run: checkGarbageLength,
			What: "it closes the connection on a length over the limit, and keeps running",
			Fix:  "compare the length with a limit before taking memory (1 GiB is usual); send 0x02 and close the connection"},
		{Name: "hangup", Needs: []string{answers}, Run: checkHangup,
			What: "it keeps running when the autoscaler closes the connection at any point",
			Fix:  "the end of a connection, in the middle of a message too, ends that connection only"},
		{Name: "cancel", Needs: []string{answers}, Run: checkCancel,
			What: "it keeps running when the autoscaler closes the connection during a computation",
			Fix:  "an error of the write of an answer (EPIPE, ECONNRESET) ends that connection only; stop the computation"},
	}
}

func pluginChecks() []Check {
	return []Check{
		{Name: pluginStart, Needs: []string{stdout}, Run: checkPluginStart,
			What: "started as a plugin it answers on its socket, and its first line, if there is one, is go-plugin's handshake",
			Fix:  "write nothing to standard output before plugin.Main, also in init functions and in what they call"},
		{Name: "version_skew", Needs: []string{pluginStart}, Run: checkVersionSkew,
			What: "a plugin reports clearly that it does not support the version that its host offers",
			Fix:  "let go-plugin negotiate: set VersionedPlugins, and do nothing that waits before plugin.Main"},
	}
}
