package bus

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Stored is a message of a stream, as the answer to a direct get has it.
type Stored struct {
	Subject  string
	Sequence uint64
	At       time.Time // when the stream stored it
	Header   nats.Header
	Data     []byte
	// Forged: the message was stored with a header that only the server sets. So the server was made to publish it, and its
	// content proves nothing.
	Forged bool
}

// headerStatus is the status of an answer without a message.
const headerStatus = "Status"

// serverHeaders are the headers that a server appends to each stored message.
func serverHeaders() []string {
	return []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer}
}

// IsForged reports whether the answer to a direct get has a message that was stored with a header that only the server sets.
func IsForged(answer nats.Header) bool {
	for _, name := range serverHeaders() {
		if len(answer[name]) > 1 {
			return true
		}
	}
	return answer.Get(headerStatus) != ""
}

// ReadStored returns the stored message of an answer. The server appends its own headers to the stored ones, so its values are
// the last ones. status is not empty if the answer has a status in place of a message.
func ReadStored(m *nats.Msg) (s Stored, status string, err error) {
	last := func(name string) string {
		values := m.Header[name]
		return values[len(values)-1]
	}
	status = m.Header.Get(headerStatus)
	if status != "" && len(m.Header[jetstream.SequenceHeader]) == 0 {
		return Stored{}, status, nil
	}
	for _, name := range serverHeaders() {
		if len(m.Header[name]) == 0 {
			return Stored{}, "", fmt.Errorf("the server answers without the header %s", name)
		}
	}
	s = Stored{Subject: last(jetstream.SubjectHeader), Header: m.Header, Data: m.Data, Forged: IsForged(m.Header)}
	sequence, at := last(jetstream.SequenceHeader), last(jetstream.TimeStampHeaer)
	if s.Sequence, err = strconv.ParseUint(sequence, 10, 64); err != nil || s.Sequence == 0 {
		return Stored{}, "", fmt.Errorf("the server answers with sequence number %.80q, want a number above 0", sequence)
	}
	if s.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return Stored{}, "", fmt.Errorf("the server answers with time %.80q", at)
	}
	return s, "", nil
}
