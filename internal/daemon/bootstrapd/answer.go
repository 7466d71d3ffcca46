package bootstrapd

import (
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// maxLogsAnswer bounds a response in bytes of text. Its JSON, with up to six bytes for one, must fit a message of 1
// MiB.
const maxLogsAnswer = 64 << 10

// maxRequest bounds a request of a command, in bytes.
const maxRequest = 4 << 10

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
		s, err := answerJSON(r.nats, names.BootstrapSubject(r.process.Cluster, r.process.Pool, what), r.log, of)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

func (r *reloader) answerLogs(data []byte) any {
	var request api.ProcessLogsRequest
	if err := strictjson.Within(data, maxRequest, &request); err != nil {
		return api.ProcessLogsAnswer{Error: err.Error()}
	}
	tail, err := r.bootstrap.Logs(request.App)
	if err != nil {
		return api.ProcessLogsAnswer{Error: err.Error()}
	}
	lines, _ := tail.Since(request.After)
	if n := len(lines); request.Last > 0 && n > request.Last {
		lines = lines[n-request.Last:]
	}
	a := api.ProcessLogsAnswer{Next: request.After}
	size := 0
	for _, l := range lines {
		if size += len(l.Text); size > maxLogsAnswer && a.Lines != nil {
			a.More = true
			break
		}
		if text := prose.Printable(control.Readable(l.Stream, l.Text)); text != "" {
			a.Lines = append(a.Lines, api.LogLine{At: l.Time, Text: text})
		}
		a.Next = l.Seq
	}
	return a
}

func (r *reloader) answerRestart(data []byte) any {
	var request api.RestartRequest
	err := strictjson.Within(data, maxRequest, &request)
	if err == nil {
		err = r.bootstrap.Restart(request.App)
	}
	if err != nil {
		return api.RestartAnswer{Error: err.Error()}
	}
	return api.RestartAnswer{}
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
				err = bus.Respond(nc, m, data)
			}
			if err != nil {
				log.Warn("request not answered", "subject", subject, "err", err)
			}
		}
	})
	return func() { in.Close(); answering.Wait() }, nil
}
