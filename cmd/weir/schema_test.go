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
