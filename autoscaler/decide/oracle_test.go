package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// The vectors are inputs and outputs of Clusterman's own code.

type computeRow struct {
	Kind     string                   `json:"kind"`
	Target   float64                  `json:"target"`
	Joined   float64                  `json:"non_orphan"`
	Totals   [resource.Count]float64  `json:"totals"`
	Request  [resource.Count]*float64 `json:"request"`
	Setpoint float64                  `json:"setpoint"`
	Margin   float64                  `json:"margin"`
	Excluded []resource.Kind          `json:"excluded"`
	History  []float64                `json:"history"` // 0: unknown
	Want     float64                  `json:"want"`
}

func (row computeRow) input() api.DecisionInput {
	var request, history resource.Request
	for k, x := range row.Request {
		if x != nil {
			request = request.With(resource.Kind(k), *x)
		}
	}
	for k, x := range row.History {
		if x != 0 {
			history = history.With(resource.Kind(k), x)
		}
	}
	return api.DecisionInput{
		Capacity: api.PoolCapacity{Target: row.Target, Joined: row.Joined, Totals: row.Totals},
		History:  api.PoolHistory{PerWeight: history},
		Apps:     []api.AppInput{{Name: "web", Configured: true, Opinion: api.Opinion{Verdict: api.VerdictValue, Request: request}}},
		Policy: api.DecisionPolicy{
			Setpoint: row.Setpoint, MarginUp: row.Margin, MarginDown: row.Margin, Excluded: row.Excluded,
			Limits: api.TargetLimits{Max: 1e9, MaxAdd: 1e9, MaxRemove: 1e9},
		},
	}
}

func TestOracleCompute(t *testing.T) {
	for n, row := range oracle[computeRow](t, "compute.jsonl") {
		d := Decide(row.input())
		step := d.Steps[2]
		if step.Rule != api.RuleTarget || step.After != row.Want {
			t.Errorf("row %d: Decide(%+v) = %v, want %v: %s", n+1, row, step.After, row.Want, step.Why)
		}
	}
}

type constrainRow struct {
	Kind        string  `json:"kind"`
	Target      float64 `json:"target"`
	Requested   float64 `json:"requested"`
	Min         float64 `json:"min"`
	Max         float64 `json:"max"`
	Add         float64 `json:"add"`
	Remove      float64 `json:"remove"`
	Force       bool    `json:"force"`
	NoScaleDown bool    `json:"no_scale_down"`
	Want        float64 `json:"want"`
}

func TestOracleConstrain(t *testing.T) {
	for n, row := range oracle[constrainRow](t, "constrain.jsonl") {
		if row.Force {
			t.Fatalf("row %d: force has no counterpart here", n+1)
		}
		scaleInBlocked := ""
		if row.NoScaleDown {
			scaleInBlocked = "capacity was lost"
		}
		l := api.TargetLimits{Min: row.Min, Max: row.Max, MaxAdd: row.Add, MaxRemove: row.Remove}
		if step := limited(row.Target, row.Requested, l, scaleInBlocked); step.After != row.Want {
			t.Errorf("row %d: limit(%+v) = %v, want %v: %s", n+1, row, step.After, row.Want, step.Why)
		}
	}
}

// oracle reads a file of vectors, from the folder ORACLE_DIR if that is set.
func oracle[Row any](t *testing.T, name string) []Row {
	t.Helper()
	dir := cmp.Or(os.Getenv("ORACLE_DIR"), filepath.Join("testdata", "oracle"))
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bytes.NewReader(data))
	var rows []Row
	for {
		var row Row
		switch err := lines.Decode(&row); {
		case err == io.EOF && rows != nil:
			return rows
		case err != nil:
			t.Fatalf("%s, row %d: %v", name, len(rows)+1, err)
		}
		rows = append(rows, row)
	}
}
