package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/recompute"
)

// A record that a command printed, with durations in seconds, is read as the record of the ledger.
func TestPrintedRecordIsRead(t *testing.T) {
	t.Parallel()
	r := hostileValue(reflect.TypeFor[api.TickRecord](), 0).Interface().(api.TickRecord)
	stored, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := command.EncodeNext(&printed, command.FormJSON, r); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(printed.Bytes(), []byte("_ns\"")) {
		t.Errorf("a printed record has nanoseconds: %s", printed.Bytes())
	}
	back, err := printedRecord(printed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want, err := history.ReadRecord(stored)
	if err != nil {
		t.Fatal(err)
	}
	first, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(back)
	if diff := cmp.Diff(string(first), string(second)); err != nil || diff != "" || back.Every != hostileDuration {
		t.Errorf("the printed record differs: %v (-stored +printed):\n%s\nevery %v", err, diff, back.Every)
	}
}

// printedRecord decodes a record that a command printed, with its durations in seconds.
func printedRecord(data []byte) (api.TickRecord, error) {
	data, err := seconds.Back[api.TickRecord](data)
	if err != nil {
		return api.TickRecord{}, err
	}
	return history.ReadRecord(data)
}

// "weir decide" refuses a record of another schema in one line that names both schemas.
func TestDecideRefusesAnotherSchema(t *testing.T) {
	t.Parallel()
	_, err := new(recompute.Reader).Answer([]byte(`{"schema":2,"every_ns":1,"case":{}}`))
	want := "the record has schema 2, and this weir decides records of schema 1; weir explain shows it"
	if err == nil || err.Error() != want {
		t.Errorf("decide = %v, want %s", err, want)
	}
}
