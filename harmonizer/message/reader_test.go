package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

const (
	aUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
	aHex  = "0123456789abcdef0123456789abcdef"
)

func object(app, instance string, rest ...string) string {
	return `{"cc_partition":"default","droplet":` + app + `,"version":"` + aUUID + `","instance":"` + instance +
		`","index":3,"state":"RUNNING","state_timestamp":1369251231.25` + strings.Join(rest, "") + `}`
}

func heartbeat(objects ...string) string {
	return `{"dea":"node-1","droplets":[` + strings.Join(objects, ",") + `]}`
}

// beats converts a reading to a heartbeat.
func beats(r Reading) api.Heartbeat {
	hb := api.Heartbeat{Node: string(r.Node)}
	for _, l := range r.Listings {
		for _, text := range []Text{l.App, l.Version, l.Instance} {
			if text.ID.Form != FormOther && text.ID.String() != string(text.Raw) {
				panic("the id of " + string(text.Raw) + " is " + text.ID.String())
			}
		}
		hb.Beats = append(hb.Beats, api.Beat{Partition: string(l.Partition), App: string(l.App.Raw), Version: string(l.Version.Raw),
			Instance: string(l.Instance.Raw), Index: int(l.Index), State: api.CopyState(l.State), Since: l.Since})
	}
	return hb
}

// reference decodes a heartbeat by the rules of strictjson.Lenient.
func reference(from Node, data []byte) (hb api.Heartbeat, unread int, err error) {
	var whole struct {
		Node  json.RawMessage `json:"dea"`
		Beats json.RawMessage `json:"droplets"`
	}
	if err := Unmarshal(data, &whole, "droplets"); err != nil {
		return hb, 0, err
	}
	f := Fields{agent: from.Name != ""}
	hb.Node = f.ID("dea", whole.Node)
	f.List("droplets", whole.Beats, MaxBeats, func(_ *Fields, raw json.RawMessage) {
		var o wireBeat
		f := Fields{agent: from.Name != ""}
		if Unmarshal(raw, &o) != nil {
			unread++
			return
		}
		beat := api.Beat{Partition: f.Text("cc_partition", o.Partition), App: f.ID("droplet", o.App), Version: string(f.version("version", o.Version)),
			Instance: f.ID("instance", o.Instance), Index: f.index("index", o.Index), State: api.CopyState(f.ID("state", o.State)),
			Since: f.seconds("state_timestamp", o.Since)}
		if f.Err == nil {
			hb.Beats = append(hb.Beats, beat)
		} else {
			unread++
		}
	})
	if f.Err != nil {
		return hb, unread, f.Err
	}
	return hb, unread, nil
}

func TestReadForms(t *testing.T) {
	tests := []struct {
		name, in string
	}{
		{"usual", heartbeat(object(`"`+aUUID+`"`, aHex))},
		{"two", heartbeat(object(`"web"`, "i0"), object(`"web"`, aUUID))},
		{"none", heartbeat()},
		{"numeric app", heartbeat(object(`4711`, aHex))},
		{"long names", heartbeat(object(`"`+strings.Repeat("a", 100)+`"`, strings.Repeat("b", MaxID)))},
		{"upper-case ids", heartbeat(object(`"`+strings.ToUpper(aUUID)+`"`, strings.ToUpper(aHex)))},
		{"quote inside where a uuid would end", heartbeat(object(`"`+strings.Repeat("a", 35)+`"`, strings.Repeat("a", 31)))},
		{"foreign state", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), "RUNNING", "RESUMING")},
		{"no partition", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), `"cc_partition":"default",`, "")},
		{"whole time", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), "1369251231.25", "12")},
		{"time of 17 digits", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), "1369251231.25", "1369251231.1234567")},
		{"time of 29 digits", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), "1369251231.25", "0.1234567890123456789012345678")},
		{"node last", `{"droplets":[` + object(`"web"`, "i") + `],"dea":"node-1"}`},
		{"node last, none", `{"droplets":[],"dea":17}`},
		{"spaces", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), ":", ": ")},
		{"new key", heartbeat(object(`"web"`, "i", `,"new":1`))},
		{"escape", heartbeat(object(`"w\u0065b"`, "i"))},
		{"umlaut", heartbeat(object(`"wäb"`, "i"))},
		{"exponent", strings.ReplaceAll(heartbeat(object(`"web"`, "i")), "1369251231.25", "1e3")},
		{"negative numeric app", heartbeat(object(`-7`, "i"))},
		{"keys in another order", `{"droplets":[{"state":"RUNNING","instance":"i","droplet":"web","index":0,"version":null}],"new":{"a":[1,"\\u0065"]},"dea":"n"}`},
		{"key with an escape", `{"d\u0065a":"n","droplets":[]}`},
		{"unknown key twice", heartbeat(object(`"web"`, "i", `,"new":4,"new":5`))},
		{"newline at the end", heartbeat(object(`"web"`, "i")) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, _, err := reference(Node{}, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewHeartbeats("").Read(Node{}, []byte(tt.in), nil)
			if diff := cmp.Diff(want, beats(r)); diff != "" || err != nil {
				t.Errorf("Read (-want +got)\n%s %v", diff, err)
			}
		})
	}
}

func TestReadRejectsMalformedHeartbeats(t *testing.T) {
	good := heartbeat(object(`"web"`, "i"))
	for _, in := range []string{
		"", "{", good[:len(good)-1], good + "x", good + good, heartbeat(object(`01`, "i")), heartbeat(object(`""`, "i")),
		heartbeat(object(`"web"`, "")), heartbeat(object(`"web"`, strings.Repeat("b", MaxID+1))),
		strings.ReplaceAll(good, "3", "100000"), strings.ReplaceAll(good, "index\":3", "index\":03"),
		strings.ReplaceAll(good, "RUNNING", ""), strings.ReplaceAll(good, "1369251231.25", "1."),
		strings.ReplaceAll(good, "1369251231.25", "01.5"), strings.ReplaceAll(good, "1369251231.25", "253402300800"),
		strings.ReplaceAll(good, "1369251231.25", ""), strings.ReplaceAll(good, "1369251231.25", ".25"), strings.ReplaceAll(good, `"`+aUUID+`"`, ""),
		strings.ReplaceAll(good, "node-1", ""), `{"droplets":[],"dea":""}`, `{"droplets":[` + object(`"web"`, "i") + `,],"dea":"n"}`,
		`{"dea":"n","droplets":[` + strings.Repeat(object(`"web"`, "i")+",", MaxBeats) + object(`"web"`, "i") + `]}`,
	} {
		if _, unread, err := reference(Node{}, []byte(in)); err == nil && unread == 0 {
			t.Errorf("the reference reads %.200s", in)
		}
		if _, err := NewHeartbeats("").Read(Node{}, []byte(in), nil); err == nil {
			t.Errorf("Read(%.200s) succeeded", in)
		}
	}
}

func TestReadSkipsRepeatedObjects(t *testing.T) {
	a, b, c, d := object(`"a"`, "ia"), object(`"b"`, aUUID), object(`"c"`, aHex), object(`"d"`, "id")
	h := NewHeartbeats("")
	first, err := h.Read(Node{}, []byte(heartbeat(a, b, c)), nil)
	if err != nil {
		t.Fatal(err)
	}
	var marks []Mark
	for _, l := range first.Listings {
		marks = append(marks, l.Mark)
	}
	tests := []struct {
		name    string
		objects []string
		want    []int
	}{
		{"the same", []string{a, b, c}, []int{0, 1, 2}},
		{"one changed", []string{a, object(`"b"`, aUUID, " "), c}, []int{0, -1, 2}},
		{"one gone", []string{a, c}, []int{0, 2}},
		{"one new at the end", []string{a, b, c, d}, []int{0, 1, 2, -1}},
		{"one other", []string{a, d, c}, []int{0, -1, 2}},
		{"in front", []string{d, a, b, c}, []int{-1, -1, -1, -1}},
		{"twice", []string{a, a, b}, []int{0, -1, -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := h.Read(Node{}, []byte(heartbeat(tt.objects...)), func(node []byte) []Mark { return marks })
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, l := range r.Listings {
				got = append(got, l.Repeats)
				if l.Repeats >= 0 && l.Mark != marks[l.Repeats] {
					t.Errorf("mark %v of the object that repeats %d, want %v", l.Mark, l.Repeats, marks[l.Repeats])
				}
			}
			if !cmp.Equal(got, tt.want) {
				t.Errorf("repeats %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReadPartition(t *testing.T) {
	objects := []string{
		object(`"a"`, "i1"), strings.ReplaceAll(object(`"a"`, "i2"), "default", "other"),
		strings.ReplaceAll(object(`"a"`, "i3"), `"cc_partition":"default",`, ""),
	}
	for _, in := range []string{heartbeat(objects...), heartbeat(objects...) + " "} {
		for partition, want := range map[string]string{"": "[false false false]", "default": "[false true true]"} {
			r, err := NewHeartbeats(partition).Read(Node{}, []byte(in), nil)
			var got []bool
			for _, l := range r.Listings {
				got = append(got, l.Foreign)
			}
			if err != nil || fmt.Sprint(got) != want {
				t.Errorf("partition %q: foreign %v, %v, want %v", partition, got, err, want)
			}
		}
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	var objects []string
	for i := range 100 {
		objects = append(objects, object(`"`+aUUID+`"`, fmt.Sprintf("%032x", i)))
	}
	objects = append(objects, strings.ReplaceAll(objects[0], "1369251231.25", "1369251231.1234567"))
	data := []byte(heartbeat(objects...))
	h := NewHeartbeats("default")
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Read(Node{}, data, nil) }); n != 0 {
		t.Errorf("Read makes %v allocations", n)
	}
}

func TestPackRoundTrip(t *testing.T) {
	seen := map[ID]string{}
	for _, s := range []string{"", "a", "a\x00", "0123456789abcdef", "0123456789abcdefg", aUUID, aHex, strings.ToUpper(aUUID), strings.ToUpper(aHex),
		strings.Replace(aHex, "a", "g", 1), strings.Replace(aHex, "a", "@", 1), strings.Replace(aHex, "a", "o", 1), strings.Replace(aUUID, "-", "_", 1)} {
		id := Pack([]byte(s))
		fits := len(s) <= 16 || s == aUUID || s == aHex
		if (id.Form != FormOther) != fits || fits && id.String() != s {
			t.Errorf("Pack(%q) = %v, %q", s, id, id.String())
		}
		if other, ok := seen[id]; ok && fits {
			t.Errorf("%q and %q have the same ID", s, other)
		}
		seen[id] = s
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[0-9a-f]{32}`), rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`),
			rapid.StringN(0, 16, 16), rapid.StringMatching(`[0-9a-fA-FgGo@/:]{32}`)).Draw(t, "s")
		if id := Pack([]byte(s)); id.Form != FormOther && id.String() != s {
			t.Fatalf("Pack(%q).String() = %q", s, id.String())
		} else if id.Form == FormOther && strings.Trim(s, "0123456789abcdef-") == "" {
			t.Fatalf("Pack(%q) does not pack", s)
		}
	})
}

// FuzzRead compares with the reference, with and without the marks of another message, for an agent and a legacy DEA.
func FuzzRead(f *testing.F) {
	f.Add([]byte(heartbeat(object(`"`+aUUID+`"`, aHex), object(`7`, "i"))), []byte(heartbeat(object(`"web"`, "i"))))
	f.Add([]byte(`{"droplets":[`+object(`"web"`, "i")+`],"dea":"node-1"}`), []byte(heartbeat(object(`"web"`, "i"))))
	f.Add([]byte(heartbeat()), []byte("{}"))
	f.Add([]byte(`{"dea":"a","dea":"b","droplets":null}`), []byte("{}"))
	f.Fuzz(func(t *testing.T, data, before []byte) {
		for _, from := range []Node{{}, {Pool: "p", Name: "n"}} {
			h := NewHeartbeats("")
			var marks []Mark
			var marked []api.Beat
			if r, err := h.Read(from, before, nil); err == nil {
				marked = beats(r).Beats
				for _, l := range r.Listings {
					marks = append(marks, l.Mark)
				}
			}
			compare(t, h, from, data, marks, marked)
		}
	})
}

// compare compares Read with the reference. The marks are those of the marked beats.
func compare(t *testing.T, h *Heartbeats, from Node, data []byte, marks []Mark, marked []api.Beat) {
	t.Helper()
	want, unread, wantErr := reference(from, data)
	r, err := h.Read(from, data, func([]byte) []Mark { return marks })
	got := 0
	if part, ok := errors.AsType[*UnreadError](err); ok {
		got, err = part.Objects, nil
	}
	if (err == nil) != (wantErr == nil) || err == nil && got != unread {
		t.Fatalf("Read(%v, %q): %v, %d not readable, reference: %v, %d not readable", from, data, err, got, wantErr, unread)
	}
	if err != nil {
		return
	}
	read := beats(r)
	for i, l := range r.Listings {
		if l.Repeats >= 0 {
			read.Beats[i] = marked[l.Repeats]
		}
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("Read(%v, %q) (-want +got)\n%s", from, data, diff)
	}
}

// The two decoders of heartbeats and the reference agree on each fault. A heartbeat of a legacy DEA differs in two cases: an id
// may be a number, and a version may be missing.
func TestDecodersOfHeartbeatsAgree(t *testing.T) {
	agent := Node{Pool: "p", Name: "node-1"}
	for _, c := range jsonfault.Cases(heartbeat(object(`"a"`, "ia"), object(`"b"`, aUUID), object(`"c"`, aHex))) {
		data := []byte(c.Text)
		for _, from := range []Node{{}, agent} {
			compare(t, NewHeartbeats(""), from, data, nil, nil)
		}
		read, err := NewHeartbeats("").Read(agent, data, nil)
		decoded, err2 := DecodeHeartbeat(data)
		if fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Errorf("%v: Read: %v, DecodeHeartbeat: %v", c, err, err2)
		}
		if diff := cmp.Diff(beats(read).Beats, decoded.Beats, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v: (-Read +DecodeHeartbeat)\n%s", c, diff)
		}
		_, legacy := NewHeartbeats("").Read(Node{}, data, nil)
		id := strings.HasSuffix(c.Path, "dea") || slices.ContainsFunc([]string{"droplet", "version", "instance", "state"}, func(key string) bool { return strings.HasSuffix(c.Path, "."+key) })
		number := c.Fault == jsonfault.Type && (c.Value == "7" || c.Value == "-1")
		absent := strings.HasSuffix(c.Path, ".version") && (c.Fault == jsonfault.Missing || c.Fault == jsonfault.Null)
		if (legacy == nil) != (err == nil || id && number || absent) {
			t.Errorf("%v: agent: %v, legacy DEA: %v", c, err, legacy)
		}
	}
}

// A second node would have the marks of the first.
func TestReadRefusesTwoNodes(t *testing.T) {
	o := object(`"web"`, "i")
	for _, in := range []string{`{"dea":"n","droplets":[` + o + `],"dea":"m"}`, `{"dea":"n","droplets":[],"droplets":[` + o + `]}`} {
		if _, err := NewHeartbeats("").Read(Node{}, []byte(in), nil); err == nil || !strings.Contains(err.Error(), "is given twice") {
			t.Errorf("Read(%s): %v", in, err)
		}
	}
}

// hundred returns a heartbeat of 100 app instances.
func hundred(b *testing.B) []byte {
	hb := api.Heartbeat{Node: aUUID}
	for i := range 100 {
		hb.Beats = append(hb.Beats, api.Beat{Partition: "default", App: aUUID, Version: aUUID, Instance: fmt.Sprintf("%032x", i),
			State: api.CopyRunning, Since: 1369251231.125})
	}
	data, err := json.Marshal(hb)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkRead decodes as the harmonizer does.
func BenchmarkRead(b *testing.B) {
	data, h := hundred(b), NewHeartbeats("default")
	for b.Loop() {
		if _, err := h.Read(Node{}, data, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
	b.ReportMetric(float64(len(data))/100, "bytes/instance")
}

// BenchmarkDecodeHeartbeat decodes as the placer does.
func BenchmarkDecodeHeartbeat(b *testing.B) {
	data := hundred(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeHeartbeat(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}
