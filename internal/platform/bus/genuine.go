package bus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrNotGenuine is the error of checkGenuine.
var ErrNotGenuine = errors.New("the NATS server made the message at the request of another client")

// ErrNoReply refuses a request without a reply subject. A server-made message never has one of its own.
var ErrNoReply = errors.New("the request has no reply subject")

// checkGenuine returns an error unless a client published the message on its subject. A client may have the server publish
// for it, even on subjects that are forbidden to the client:
//
//   - A direct get answers with a stored message on any reply subject. Such an answer has headers of the server.
//   - A consumer delivers stored messages to any subject. They keep their own subject, and their reply subject begins
//     with $JS.
//   - An error of the server has a status in its header.
//
// A response of the JetStream API has none of these marks. It has no reply subject, so Inbox refuses it as a request,
// and a decoder of events refuses its content.
//
// What a stream or a bucket republishes comes from the account of the streams alone: there the headers prove that a stream
// published it.
//
// The error wraps ErrNotGenuine. Inbox calls checkGenuine for each message.
func checkGenuine(m *nats.Msg) error {
	if m.Sub != nil && isRepublished(m.Sub.Subject) {
		return checkRepublished(m)
	}
	if m.Sub == nil || !matches(m.Sub.Subject, m.Subject) {
		return fmt.Errorf("%w: its own subject is %.120q", ErrNotGenuine, m.Subject)
	}
	if strings.HasPrefix(m.Reply, "$JS.") {
		return fmt.Errorf("%w: its reply subject is %.120q", ErrNotGenuine, m.Reply)
	}
	for name := range m.Header {
		if ofServer(name) {
			return fmt.Errorf("%w: it has the header %.120q", ErrNotGenuine, name)
		}
	}
	return nil
}

// isRepublished reports whether a subject is one of names.LiveSubject or names.ChangedSubject.
func isRepublished(subject string) bool {
	tokens := strings.SplitN(subject, ".", 4)
	return len(tokens) == 4 && tokens[0] == "weir" && (tokens[2] == "live" || tokens[2] == "changed")
}

// checkRepublished returns an error unless a stream has stored the message and republished it to its subject. A message that was
// stored with headers of the server has them twice.
func checkRepublished(m *nats.Msg) error {
	switch {
	case !matches(m.Sub.Subject, m.Subject):
		return fmt.Errorf("%w: its own subject is %.120q", ErrNotGenuine, m.Subject)
	case m.Reply != "":
		return fmt.Errorf("%w: it has the reply subject %.120q", ErrNotGenuine, m.Reply)
	case IsForged(m.Header):
		return fmt.Errorf("%w: it was stored with headers of the server", ErrNotGenuine)
	}
	for _, name := range serverHeaders() {
		if len(m.Header[name]) == 0 {
			return fmt.Errorf("%w: no stream has stored it", ErrNotGenuine)
		}
	}
	return nil
}

// requestInfo is the header that the server adds to each message from a user of another account, such as an operator.
// A stored message does not have it: a stream removes it.
const requestInfo = "nats-request-info"

// ofServer reports whether the server sets this header on what it sends itself. Publishers to a stream set some that
// begin with Nats- too.
func ofServer(header string) bool {
	name := strings.ToLower(header)
	if name == "nats-msg-id" || name == requestInfo || strings.HasPrefix(name, "nats-expected-") {
		return false
	}
	return name == "status" || strings.HasPrefix(name, "nats-")
}

// matches reports whether a subscription to the pattern receives messages with that subject.
func matches(pattern, subject string) bool {
	for {
		want, restOfPattern, morePattern := strings.Cut(pattern, ".")
		token, restOfSubject, moreSubject := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return token != "" && !morePattern
		case token == "" || want != "*" && want != token:
			return false
		case !morePattern || !moreSubject:
			return morePattern == moreSubject
		}
		pattern, subject = restOfPattern, restOfSubject
	}
}
