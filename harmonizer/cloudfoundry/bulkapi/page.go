package bulkapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	firstToken = "{}"
	maxToken   = 4 << 10  // bytes; it is sent back in a URL
	maxRows    = 1 << 21  // of a pass
	maxTokens  = 16 << 20 // bytes of all tokens of a pass, which are stored
)

// collected has the rows of one pass.
type collected struct {
	footprints footprints

	rows           []api.App
	unreadable     []string // names of apps with unreadable rows
	unreadableRows int      // number of unreadable rows
	problem        error    // of the first unreadable row
	token          string   // of the next page
	seen           map[string]bool
	tokens         int  // bytes in seen
	done           bool // a page was empty: the pass is complete

	raw json.RawMessage // of the latest row; its capacity is reused
	row wireRow
}

// footprints have what rows lack, by app.
type footprints struct {
	of    map[string]Footprint
	other Footprint
}

func newFootprints(c Config) footprints {
	f := footprints{of: make(map[string]Footprint, len(c.Apps)), other: c.Apps[EveryApp].or(c.Footprint)}
	for id, own := range c.Apps {
		f.of[id] = own.or(f.other)
	}
	return f
}

func (f footprints) find(id string) Footprint {
	if own, ok := f.of[id]; ok {
		return own
	}
	return f.other
}

func newCollected(f footprints) *collected {
	return &collected{footprints: f, token: firstToken, seen: map[string]bool{firstToken: true}}
}

// page adds the rows of one answer. After an error it has added none, so the page can be
// requested again. A truncated answer is an errUnavailable.
func (h *collected) page(r io.Reader) error {
	before := *h
	err := h.read(r)
	if err != nil {
		*h = before
	}
	return err
}

func (h *collected) read(r io.Reader) error {
	dec := json.NewDecoder(r)
	rows, token := -1, json.RawMessage(nil)
	err := object(dec, "the answer", func(key string) error {
		switch {
		case key == "results" && rows >= 0, key == "bulk_token" && token != nil:
			return fmt.Errorf("%w: %s is given twice", errBadAnswer, key)
		case key == "results":
			n, err := h.results(dec)
			rows = n
			return err
		case key == "bulk_token":
			return wrapJSON(dec.Decode(&token))
		}
		var skipped json.RawMessage
		return wrapJSON(dec.Decode(&skipped))
	})
	if err != nil {
		return err
	}
	switch _, err := dec.Token(); {
	case err == nil:
		return fmt.Errorf("%w: it has data after its end", errBadAnswer)
	case err != io.EOF:
		return wrapJSON(err)
	case rows < 0:
		return fmt.Errorf("%w: it has no results", errBadAnswer)
	}
	if rows == 0 {
		h.done = true
		return nil
	}
	return h.follow(token)
}

// follow stores the token of the next page.
func (h *collected) follow(raw json.RawMessage) error {
	if absent(raw) {
		return fmt.Errorf("%w: it has results but no bulk_token", errBadAnswer)
	}
	if len(raw) > maxToken {
		return fmt.Errorf("%w: its bulk_token has %d bytes", errBadAnswer, len(raw))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("%w: bulk_token: %w", errBadAnswer, err)
	}
	token := compact.String()
	if h.seen[token] {
		return fmt.Errorf("%w: bulk_token %.100q is repeated", errBadAnswer, token)
	}
	if h.tokens += len(token); h.tokens > maxTokens {
		return fmt.Errorf("%w: its bulk_tokens have more than %d bytes", errTooLarge, maxTokens)
	}
	h.seen[token], h.token = true, token
	return nil
}

// results decodes the rows of an answer, and returns their number. An app that is listed twice is unreadable.
func (h *collected) results(dec *json.Decoder) (int, error) {
	n, first, listed := 0, len(h.rows), map[string]bool{}
	err := object(dec, "results", func(key string) error {
		if err := dec.Decode(&h.raw); err != nil {
			return wrapJSON(err)
		}
		h.row.reset()
		err := cmp.Or(strictjson.Lenient(h.raw, &h.row))
		n++
		if len(h.rows)+h.unreadableRows == maxRows {
			return fmt.Errorf("%w: more than %d apps", errTooLarge, maxRows)
		}
		if listed[key] {
			err = fmt.Errorf("app %.64q is given twice", key)
			h.rows = append(h.rows[:first], slices.DeleteFunc(h.rows[first:], func(a api.App) bool { return a.Name == key })...)
		}
		if listed[key] = true; err == nil {
			err = h.addRow(key)
		}
		if err != nil {
			h.addUnreadable(key, err)
		}
		return nil
	})
	return n, err
}

// addRow adds the row that was decoded last.
func (h *collected) addRow(name string) error {
	if !absent(h.row.ID) && !equalsText(h.row.ID, name) {
		id, err := readID(h.row.ID)
		if err != nil {
			return fmt.Errorf("app %.64q: id %w", name, err)
		}
		if id != name {
			h.unreadable = append(h.unreadable, id) // nodes may use either name
			return fmt.Errorf("app %.64q: id is %.64q", name, id)
		}
	}
	a, err := h.row.app(name, h.footprints.find(name))
	if err == nil {
		h.rows = append(h.rows, a)
	}
	return err
}

// addUnreadable counts an unreadable row. It stores the name of the app, unless the name is
// invalid for nodes.
func (h *collected) addUnreadable(name string, err error) {
	if h.problem == nil {
		h.problem = err
	}
	h.unreadableRows++
	if name != "" && len(name) <= message.MaxID {
		h.unreadable = append(h.unreadable, name)
	}
}

// object decodes an object. The caller decodes each value.
func object(dec *json.Decoder, what string, value func(key string) error) error {
	switch t, err := dec.Token(); {
	case err != nil:
		return wrapJSON(err)
	case t != json.Delim('{'):
		return fmt.Errorf("%w: %s is not an object", errBadAnswer, what)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return wrapJSON(err)
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%w: %s has a key that is not a string", errBadAnswer, what)
		}
		if err := value(key); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return wrapJSON(err)
}

// wrapJSON distinguishes a truncated or unreadable answer from an invalid one.
func wrapJSON(err error) error {
	if err == nil || errors.Is(err, errTooLarge) {
		return err
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: read the answer: %w", errUnavailable, err)
}
