package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Keys of a harmonizer's state.
const (
	shards      = 256
	shardPrefix = "memory.apps."
	nodesKey    = "memory.nodes"
)

// page is one key of a harmonizer's state: a JSON object with one value for each app or node.
type page struct {
	key      string
	asideKey string // key for an unreadable value
	// take decodes one value and adds it to r.
	take func(r *harmonizer.SavedState, name string, value []byte) error
	// check validates one value, if take is nil. The entries are the result then.
	check func(name string, value []byte) error
	// thin keeps less than that share of the content of entries. It returns how many items it dropped, at least 1 if
	// there is any.
	thin     func(entries map[string]json.RawMessage, share float64) (int, error)
	loaded   harmonizer.SavedState // loaded by read, until remembered returns it
	entries  map[string]json.RawMessage
	changed  bool   // since the last write
	revision uint64 // of the last write
}

func newPages() map[string]*page {
	all := make(map[string]*page, shards+1)
	all[nodesKey] = &page{key: nodesKey, asideKey: asidePrefix + "nodes", take: addNode, thin: thinCensus}
	for shard := range uint32(shards) {
		key := shardPrefix + hex(shard)
		all[key] = &page{key: key, asideKey: asidePrefix + hex(shard), thin: thinMemories, take: func(r *harmonizer.SavedState, name string, value []byte) error {
			if want := shardKey(name); want != key {
				return fmt.Errorf("app %.80q belongs to %s", name, want)
			}
			return addApp(r, name, value)
		}}
	}
	return all
}

func hex(shard uint32) string { return fmt.Sprintf("%02x", shard) }

// shardKey returns the key of an app's shard: the last byte of the 32-bit FNV-1a hash of its name.
func shardKey(app string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(app)) // never an error
	return shardPrefix + hex(h.Sum32()%shards)
}

// empty drops the loaded entries.
func (p *page) empty() { p.loaded, p.entries = harmonizer.SavedState{}, map[string]json.RawMessage{} }

// read fills an empty page from its body. An empty body has no entries. After an error the page is still empty.
func (p *page) read(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(body, &entries); err != nil {
		return err
	}
	if entries == nil {
		return errors.New("it is null")
	}
	loaded := harmonizer.SavedState{Nodes: map[message.Node]int{}}
	for name, value := range entries {
		var err error
		if p.take == nil {
			err = p.check(name, value)
		} else {
			err = p.take(&loaded, name, value)
		}
		if err != nil {
			return err
		}
	}
	p.loaded, p.entries = loaded, entries
	return nil
}

// body encodes the entries in order of name, for read. It copies the values unchanged, because json.Marshal would
// scan each byte again: milliseconds for a shard.
func (p *page) body() []byte {
	body := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(p.entries)) {
		if i > 0 {
			body = append(body, ',')
		}
		quoted, _ := json.Marshal(name) // a string: never an error
		body = append(append(append(body, quoted...), ':'), p.entries[name]...)
	}
	return append(body, '}')
}

// set stores a value; nil deletes it.
func (p *page) set(name string, value json.RawMessage) {
	if value == nil {
		_, there := p.entries[name]
		p.changed = p.changed || there
		delete(p.entries, name)
		return
	}
	if !bytes.Equal(p.entries[name], value) {
		p.entries[name], p.changed = value, true
	}
}

// replace makes these the only entries.
func (p *page) replace(entries map[string]json.RawMessage) {
	for name := range p.entries {
		if entries[name] == nil {
			p.set(name, nil)
		}
	}
	for name, value := range entries {
		p.set(name, value)
	}
}

// encodeMemories returns each app's encoded state, nil for an empty one.
func encodeMemories(changed []apps.Memory) (map[string]json.RawMessage, error) {
	encoded := make(map[string]json.RawMessage, len(changed))
	for _, m := range changed {
		if err := checkMemory(m); err != nil {
			return nil, err
		}
		if m.Empty() {
			encoded[m.App] = nil
			continue
		}
		value, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("app %q: %w", m.App, err)
		}
		encoded[m.App] = value
	}
	return encoded, nil
}

// addApp decodes and adds one app.
func addApp(r *harmonizer.SavedState, app string, value []byte) error {
	var m apps.Memory
	if err := json.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("app %.80q: %w", app, err)
	}
	if m.App != app {
		return fmt.Errorf("app %.80q: it belongs to app %.80q", app, m.App)
	}
	if err := checkMemory(m); err != nil {
		return err
	}
	r.Apps = append(r.Apps, m)
	return nil
}

func checkMemory(m apps.Memory) error {
	switch {
	case !validID(m.App):
		return fmt.Errorf("app %.80q: want a name of 1 to %d bytes", m.App, message.MaxID)
	case m.Version != "" && !validID(m.Version):
		return fmt.Errorf("app %q: version %.80q: want at most %d bytes", m.App, m.Version, message.MaxID)
	case len(m.Indices) > message.MaxInstances:
		return fmt.Errorf("app %q: %d indices, more than %d", m.App, len(m.Indices), message.MaxInstances)
	}
	if len(m.Stops) > apps.MaxStops {
		return fmt.Errorf("app %q: %d stops, more than %d", m.App, len(m.Stops), apps.MaxStops)
	}
	for _, s := range m.Stops {
		if s.Index < 0 || s.Index >= message.MaxInstances || !validID(s.Instance) {
			return fmt.Errorf("app %q: stop of index %d, instance %.80q: want 0 to %d, and 1 to %d bytes",
				m.App, s.Index, s.Instance, message.MaxInstances-1, message.MaxID)
		}
	}
	for _, i := range m.Indices {
		if i.Index < 0 || i.Index >= message.MaxInstances || i.Crashes < 0 {
			return fmt.Errorf("app %q: index %d with %d crashes: want 0 to %d, and at least 0",
				m.App, i.Index, i.Crashes, message.MaxInstances-1)
		}
		if i.Ended != nil && (i.Ended.Index != i.Index || !validID(i.Ended.Instance)) {
			return fmt.Errorf("app %q: index %d has the end of index %d, instance %.80q", m.App, i.Index, i.Ended.Index, i.Ended.Instance)
		}
	}
	return nil
}

// encodeCensus encodes how many copies each node ran.
func encodeCensus(nodes map[message.Node]int) (map[string]json.RawMessage, error) {
	encoded := make(map[string]json.RawMessage, len(nodes))
	for node, copies := range nodes {
		if err := checkNodeCount(node, copies); err != nil {
			return nil, err
		}
		encoded[node.String()] = strconv.AppendInt(nil, int64(copies), 10)
	}
	return encoded, nil
}

// addNode decodes and adds one node.
func addNode(r *harmonizer.SavedState, name string, value []byte) error {
	var node message.Node
	var copies int
	_ = node.UnmarshalText([]byte(name)) // never an error; the node is checked below
	if err := json.Unmarshal(value, &copies); err != nil {
		return fmt.Errorf("node %.80q: %w", name, err)
	}
	if err := checkNodeCount(node, copies); err != nil {
		return err
	}
	r.Nodes[node] = copies
	return nil
}

func checkNodeCount(node message.Node, copies int) error {
	if !validID(node.Name) || node.Pool != "" && !validID(node.Pool) {
		return fmt.Errorf("node %.80q: want a name of 1 to %d bytes", node, message.MaxID)
	}
	if copies < 0 {
		return fmt.Errorf("node %q: %d copies: want at least 0", node, copies)
	}
	return nil
}

// validID reports whether s survives JSON unchanged and is short enough.
func validID(s string) bool { return s != "" && len(s) <= message.MaxID && utf8.ValidString(s) }
