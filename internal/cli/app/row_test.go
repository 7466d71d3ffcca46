package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A leader that hangs takes a write and does not answer. The row is read again: the write is reported as done if the row
// is stored, or deleted by a deletion, and as unknown otherwise.
func TestUnansweredWriteOfAnAppIsReadAgain(t *testing.T) {
	t.Parallel()
	row := api.App{Name: "web", Pool: "default", Instances: 2, Command: "true"}
	data, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	const unknown = `read it with "weir app get web" before you try again`
	for name, tc := range map[string]struct {
		deletes bool
		stored  []byte // nil: a delete marker
		want    string // in the error; empty: no error
	}{
		"stored":      {false, data, ""},
		"not stored":  {false, bytes.ReplaceAll(data, []byte(":2"), []byte(":1")), unknown},
		"deleted":     {true, nil, ""},
		"not deleted": {true, data, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := bustest.Serve(t, server.Options{})
			b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}}, Name: "test", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			// This client takes the place of the bucket's servers.
			servers := bustest.Connect(t, s.ClientURL())
			const subject = "$KV.weir-apps_c.web"
			if _, err := servers.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			if _, err := servers.Subscribe("$JS.API.DIRECT.GET.KV_weir-apps_c."+subject, func(m *nats.Msg) {
				answer := &nats.Msg{Header: nats.Header{
					"Nats-Stream": {"KV_weir-apps_c"}, "Nats-Sequence": {"8"}, "Nats-Subject": {subject}, "Nats-Time-Stamp": {"2026-03-01T12:00:00Z"},
				}, Data: tc.stored}
				if tc.stored == nil {
					answer.Header.Set("KV-Operation", "DEL")
				}
				_ = m.RespondMsg(answer) // the client waits for it
			}); err != nil {
				t.Fatal(err)
			}
			if err := servers.Flush(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if tc.deletes {
				err = eraseApp(ctx, b, "c", "web", 7)
			} else {
				err = writeApp(ctx, b, "c", row, 7)
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the write returns %v, want %q", err, tc.want)
			}
		})
	}
}

// A command that read a row before another command changed it repeats its change on the newest row, so no change is
// lost. At the end of its context it gives up.
func TestChangeOfAnOldRowIsRepeated(t *testing.T) {
	t.Parallel()
	_, b, _ := newFiles(t)
	row := api.App{Name: "web", Pool: "p", Instances: 1, Version: "v1", Command: "run"}
	if err := writeApp(t.Context(), b, "c", row, 0); err != nil {
		t.Fatal(err)
	}
	read := 0
	err := onNewestRow(t.Context(), func() error {
		mine, revision, err := readApp(t.Context(), b, "c", "web")
		if err != nil {
			return err
		}
		if read++; read <= 2 {
			other := mine
			other.Instances++
			if err := writeApp(t.Context(), b, "c", other, revision); err != nil {
				t.Fatal(err)
			}
		}
		mine.CPUs = 2
		return writeApp(t.Context(), b, "c", mine, revision)
	})
	if got, _, _ := readApp(t.Context(), b, "c", "web"); err != nil || read != 3 || got.Instances != 3 || got.CPUs != 2 {
		t.Errorf("after %d readings: %+v, %v, want 3 readings, 3 instances and 2 cpus", read, got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := onNewestRow(ctx, func() error { return changedError{"web"} }); !errors.As(err, new(changedError)) {
		t.Errorf("a row that never stays: %v", err)
	}
}
