package api_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func placesQuestion() api.PlacesQuestion {
	return api.PlacesQuestion{
		Kinds: []api.PlacesKind{
			{Group: "a", Resources: resource.Vector{1, 1000}, Weight: 1, Coming: 1, Room: 2},
			{Group: "b", Unknown: true, Weight: 4, Room: 3},
		},
		Gone: []string{"n1"}, Aside: []string{"n2"}, Leave: []string{"n3", "n4", "n5"}, Most: 2,
	}
}

func placesAnswer() api.Places {
	web := resource.Vector{0.6, 64}
	return api.Places{
		Nodes: 5, Waiting: 6,
		Coming: []api.PlacesNeed{{Group: "a", Nodes: 1, Weight: 1, Copies: 1, First: "web/0"}},
		New:    []api.PlacesNeed{{Group: "a", Nodes: 2, Weight: 2, Copies: 2, First: "web/1"}},
		Probe:  []api.PlacesNeed{{Group: "b", Nodes: 1, Weight: 4, Copies: 1, First: "web/3"}},
		Short:  []api.PlacesApp{{App: "web", Copies: 2, Footprint: web, Why: "group a is at its maximum"}}, ShortCopies: 2,
		Never: []api.PlacesApp{{App: "large", Copies: 1, Footprint: resource.Vector{50}, Why: "it needs 50 cpus"}}, NeverCopies: 1,
		Unplaceable: resource.Vector{50}, Held: resource.Vector{9, 900},
		Leave: []string{"n4"}, Stay: []api.PlacesStay{{Node: "n3", Why: "web/4 has no other place"}}, Stays: 2, Back: []string{"n1"},
	}
}

func TestPlacesIsAnAnswerToItsQuestion(t *testing.T) {
	data, err := json.Marshal(placesAnswer())
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.DecodePlaces(data, placesQuestion())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(placesAnswer()) {
		t.Errorf("DecodePlaces = %+v, %v, want the answer", got, err)
	}
	if _, err := api.DecodePlaces([]byte(`{"nodes":3,"a_later_key":1}`), api.PlacesQuestion{}); err != nil {
		t.Errorf("a short answer with an unknown key: %v", err)
	}
}

func TestInvalidPlacesNameTheField(t *testing.T) {
	apps := make([]api.PlacesApp, api.MaxPlacesApps+1)
	for name, change := range map[string]func(p *api.Places){
		"nodes is -1":                  func(p *api.Places) { p.Nodes = -1 },
		"waiting is 7: want 6":         func(p *api.Places) { p.Waiting = 7 },
		"waiting is -1":                func(p *api.Places) { p.Waiting = -1 },
		"coming[0].group":              func(p *api.Places) { p.Coming[0].Group = "c" },
		"coming[0].nodes is 2":         func(p *api.Places) { p.Coming[0].Nodes = 2 },
		"new[0].nodes is 3":            func(p *api.Places) { p.New[0].Nodes = 3 },
		"new[0].nodes is -1":           func(p *api.Places) { p.New[0].Nodes = -1 },
		"new[0].weight is 3":           func(p *api.Places) { p.New[0].Weight = 3 },
		"new[0].weight is NaN":         func(p *api.Places) { p.New[0].Weight = math.NaN() },
		"new[0].weight is +Inf":        func(p *api.Places) { p.New[0].Weight = math.Inf(1) },
		"new[1].group":                 func(p *api.Places) { p.New = append(p.New, p.New[0]) },
		"new[0].copies is 0":           func(p *api.Places) { p.New[0].Copies = 0 },
		"new[0].first: 301 bytes":      func(p *api.Places) { p.New[0].First = strings.Repeat("x", 301) },
		"probe[0].nodes is 2":          func(p *api.Places) { p.Probe[0].Nodes = 2 },
		"probe[0].nodes is 1":          func(p *api.Places) { p.Probe[0].Group = "a" },
		"short_copies is 1":            func(p *api.Places) { p.ShortCopies = 1 },
		"short[0].app is empty":        func(p *api.Places) { p.Short[0].App = "" },
		"short[0].copies is -2":        func(p *api.Places) { p.Short[0].Copies = -2 },
		"short[0].footprint":           func(p *api.Places) { p.Short[0].Footprint[0] = math.NaN() },
		"never: 101 entries":           func(p *api.Places) { p.Never = apps },
		"never_copies is 4":            func(p *api.Places) { p.Never, p.NeverCopies = nil, 4 },
		"never[0].why: 301 bytes":      func(p *api.Places) { p.Never[0].Why = strings.Repeat("x", 301) },
		"unplaceable: cpus is -1":      func(p *api.Places) { p.Unplaceable[0] = -1 },
		"held: mem is +Inf":            func(p *api.Places) { p.Held[1] = math.Inf(1) },
		"leave: 3 nodes, at most 2":    func(p *api.Places) { p.Leave = []string{"n3", "n4", "n5"} },
		`leave[0]: "n2" is not`:        func(p *api.Places) { p.Leave = []string{"n2"} },
		`leave[1]: "n4" is not`:        func(p *api.Places) { p.Leave, p.Stay, p.Stays = []string{"n4", "n4"}, nil, 0 },
		`stay[0].node: "n4" is not`:    func(p *api.Places) { p.Stay[0].Node = "n4" },
		"stay: 1 nodes of 0":           func(p *api.Places) { p.Stays = 0 },
		"stay: 1 nodes of 3":           func(p *api.Places) { p.Stays = 3 },
		"stays is 4: want 0 to 3":      func(p *api.Places) { p.Stays = 4 },
		"stay[0].why: 301 bytes":       func(p *api.Places) { p.Stay[0].Why = strings.Repeat("x", 301) },
		`back[0]: "n2" is not in gone`: func(p *api.Places) { p.Back = []string{"n2"} },
	} {
		p := placesAnswer()
		change(&p)
		if err := p.Validate(placesQuestion()); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	if _, err := api.DecodePlaces(make([]byte, api.MaxPlacesBytes+1), placesQuestion()); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a long answer: %v, want an error", err)
	}
}

func TestInvalidPlacesQuestionsNameTheField(t *testing.T) {
	for name, change := range map[string]func(q *api.PlacesQuestion){
		"most is 201":                             func(q *api.PlacesQuestion) { q.Most = 201 },
		"kinds[0]: weight is 0":                   func(q *api.PlacesQuestion) { q.Kinds[0].Weight = 0 },
		"kinds[0]: weight is NaN":                 func(q *api.PlacesQuestion) { q.Kinds[0].Weight = math.NaN() },
		"kinds[0]: level is NaN":                  func(q *api.PlacesQuestion) { q.Kinds[0].Level = math.NaN() },
		"kinds[1]: room is -1":                    func(q *api.PlacesQuestion) { q.Kinds[1].Room = -1 },
		"kinds[1]: resources: gpus is -1":         func(q *api.PlacesQuestion) { q.Kinds[1].Resources[3] = -1 },
		`kinds[1].group: "a" has another kind`:    func(q *api.PlacesQuestion) { q.Kinds[1].Group = "a" },
		`leave[0]: node "n1" is already in gone`:  func(q *api.PlacesQuestion) { q.Leave[0] = "n1" },
		`leave[1]: node "n3" is already in leave`: func(q *api.PlacesQuestion) { q.Leave[1] = "n3" },
		`aside[0]: ""`:                            func(q *api.PlacesQuestion) { q.Aside[0] = "" },
		"gone: 10001 nodes":                       func(q *api.PlacesQuestion) { q.Gone = make([]string, 10_001) },
	} {
		q := placesQuestion()
		change(&q)
		if err := q.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	if err := placesQuestion().Validate(); err != nil {
		t.Errorf("a valid question: %v", err)
	}
}

func FuzzDecodePlaces(f *testing.F) {
	data, err := json.Marshal(placesAnswer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"new":[{"group":"a","nodes":9}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q := placesQuestion()
		p, err := api.DecodePlaces(data, q)
		if err != nil {
			return
		}
		if len(p.Leave) > q.Most || p.Validate(q) != nil || p.Unplaceable.Validate() != nil {
			t.Errorf("DecodePlaces(%q) = %+v", data, p)
		}
	})
}
