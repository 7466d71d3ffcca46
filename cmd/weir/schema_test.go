package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/recompute"
)

// A record that a command printed, with durations in seconds, is read as the record of the ledger.
func TestPrintedRecordIsRead(t *testing.T) {
	t.Parallel()
	r := hostileValue(reflect.TypeFor[autoscaler.Record](), 0).Interface().(autoscaler.Record)
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
	back, err := explain.Read(printed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want, err := explain.Read(stored)
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

// A record of the schema before is still shown, and refused by "weir decide" in one
// line that names both schemas.
func TestRecordOfSchemaOne(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "record-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := explain.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	explain.Record(&shown, r, r.At)
	for _, want := range []string{"pool here/default, tick of 18:59:09", "target ", "a 6 -> 6", "let go a a-2 (by me): ok", "leaving: a-2 of a"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("explain shows no %q:\n%s", want, shown.String())
		}
	}
	if strings.Contains(shown.String(), "account") {
		t.Errorf("explain shows an account that the record does not have:\n%s", shown.String())
	}
	_, err = new(recompute.Reader).Answer(bytes.TrimSpace(data))
	want := "the record has schema 1, and this weir decides records of schema 2; weir explain shows it"
	if err == nil || err.Error() != want {
		t.Errorf("decide = %v, want %s", err, want)
	}
}
