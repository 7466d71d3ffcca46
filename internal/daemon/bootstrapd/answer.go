package bootstrapd

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Subject returns the subject of a request to a pool's bootstrap.
func Subject(cluster, pool, what string) string {
	return names.Subject(cluster, "bootstrap", pool, what)
}

// Requests to a bootstrap, and its responses.
type (
	RestartRequest struct {
		App string `json:"app"`
	}
	RestartAnswer struct {
		Error string `json:"error,omitempty"`
	}
	LogsRequest struct {
		App   string `json:"app"`
		After uint64 `json:"after"`          // the sequence number of the last known line
		Last  int    `json:"last,omitempty"` // at most so many lines; 0: as many as fit
	}
	LogsAnswer struct {
		Lines []LogLine `json:"lines"`
		Next  uint64    `json:"next"` // the next request's After
		More  bool      `json:"more"` // more lines are available
		Error string    `json:"error,omitempty"`
	}
	LogLine struct {
		At   time.Time `json:"at"`
		Text string    `json:"text"`
	}
)

// maxLogsAnswer bounds a response in bytes of text. Its JSON, with up to six bytes for one, must fit a message of 1
// MiB.
const maxLogsAnswer = 64 << 10

// Bounds of the waiting requests of one subject.
const (
	waitingRequests = 1024
	waitingBytes    = 16 << 20
)

// answer answers requests until stop is called.
func (r *reloader) answer() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for what, of := range map[string]func(request []byte) any{
		"status":  func([]byte) any { return r.status() },
		"restart": r.answerRestart,
		"logs":    r.answerLogs,
	} {
		s, err := answerJSON(r.nats, Subject(r.process.Cluster, r.process.Pool, what), r.log, of)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

func (r *reloader) answerLogs(data []byte) any {
	var request LogsRequest
	if err := json.Unmarshal(data, &request); err != nil {
		return LogsAnswer{Error: err.Error()}
	}
	tail, err := r.bootstrap.Logs(request.App)
	if err != nil {
		return LogsAnswer{Error: err.Error()}
	}
	lines, _ := tail.Since(request.After)
	if n := len(lines); request.Last > 0 && n > request.Last {
		lines = lines[n-request.Last:]
	}
	a := LogsAnswer{Next: request.After}
	size := 0
	for _, l := range lines {
		if size += len(l.Text); size > maxLogsAnswer && a.Lines != nil {
			a.More = true
			break
		}
		if text := printable(control.Readable(l.Stream, l.Text)); text != "" {
			a.Lines = append(a.Lines, LogLine{At: l.Time, Text: text})
		}
		a.Next = l.Seq
	}
	return a
}

// printable replaces control characters in a signal's text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func (r *reloader) answerRestart(data []byte) any {
	var request RestartRequest
	err := json.Unmarshal(data, &request)
	if err == nil {
		err = r.bootstrap.Restart(request.App)
	}
	if err != nil {
		return RestartAnswer{Error: err.Error()}
	}
	return RestartAnswer{}
}

// answerJSON answers requests on subject with the result of `of`, until stop is called.
func answerJSON(nc *nats.Conn, subject string, log *slog.Logger, of func(request []byte) any) (stop func(), err error) {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{subject}, Messages: waitingRequests, Bytes: waitingBytes, Log: log})
	if err != nil {
		return nil, err
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		for m := range in.Messages() {
			data, err := json.Marshal(of(m.Data))
			if err == nil {
				err = m.Respond(data)
			}
			if err != nil {
				log.Warn("request not answered", "subject", subject, "err", err)
			}
		}
	})
	return func() { in.Close(); answering.Wait() }, nil
}
