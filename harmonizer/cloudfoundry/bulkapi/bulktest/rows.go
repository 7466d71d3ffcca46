package bulktest

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Row is one app. Zero fields get the defaults named below.
type Row struct {
	ID        string
	Instances int
	State     string    // "STARTED"
	Package   string    // "STAGED"
	Version   string    // "v1"
	Memory    int       // MB; 256
	Updated   time.Time // 2012-11-16 00:00:00 UTC
	// JSON, if set, replaces all other fields in the answer. It may be any value.
	JSON string
}

type wireRow struct {
	ID        string `json:"id"`
	Instances int    `json:"instances"`
	State     string `json:"state"`
	Memory    int    `json:"memory"`
	Package   string `json:"package_state"`
	Updated   string `json:"updated_at"`
	Version   string `json:"version"`
}

// encode returns the row as an entry of results: "ID":{...}.
func (r Row) encode() []byte {
	key := encode(r.ID)
	if r.JSON != "" {
		return slices.Concat(key, []byte(":"), []byte(r.JSON))
	}
	if r.Updated.IsZero() {
		r.Updated = time.Date(2012, 11, 16, 0, 0, 0, 0, time.UTC)
	}
	return slices.Concat(key, []byte(":"), encode(wireRow{
		ID: r.ID, Instances: r.Instances, State: cmp.Or(r.State, "STARTED"), Memory: cmp.Or(r.Memory, 256),
		Package: cmp.Or(r.Package, "STAGED"), Updated: r.Updated.UTC().Format("2006-01-02 15:04:05 UTC"),
		Version: cmp.Or(r.Version, "v1"),
	}))
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return text
}

// stored is a row with its number, which defines the pages.
type stored struct {
	number int
	id     string
	text   []byte // "ID":{...}
}

// table has the rows in order of their numbers.
type table struct {
	rows   []stored
	number map[string]int // by id
	last   int
}

func newTable() table { return table{number: map[string]int{}} }

// position returns the position of the first row whose number is at least n.
func (t *table) position(n int) int {
	at, _ := slices.BinarySearchFunc(t.rows, n, func(s stored, n int) int { return cmp.Compare(s.number, n) })
	return at
}

func (t *table) set(r Row) {
	text := r.encode()
	if n, ok := t.number[r.ID]; ok {
		t.rows[t.position(n)].text = text
		return
	}
	t.last++
	t.number[r.ID] = t.last
	t.rows = append(t.rows, stored{number: t.last, id: r.ID, text: text})
}

func (t *table) remove(ids []string) {
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
		delete(t.number, id)
	}
	t.rows = slices.DeleteFunc(t.rows, func(s stored) bool { return gone[s.id] })
}

// page appends an answer with up to size rows above a number.
func (t *table) page(answer []byte, above, size int) []byte {
	rows := t.rows[t.position(above+1):]
	rows = rows[:min(size, len(rows))]
	answer = append(answer, `{"results":{`...)
	for i, r := range rows {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(answer, r.text...)
	}
	token := struct {
		ID *int `json:"id"`
	}{}
	if len(rows) > 0 {
		token.ID = &rows[len(rows)-1].number
	}
	answer = append(answer, `},"bulk_token":`...)
	return append(append(answer, encode(token)...), '}')
}
