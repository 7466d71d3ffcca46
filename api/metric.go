package api

import "time"

// MetricTrial is what a window of a signal is at one moment, as the autoscaler reads it.
type MetricTrial struct {
	App     string        `json:"app"`
	Metric  string        `json:"metric"`
	Source  string        `json:"source,omitempty"` // in weir.yaml; empty: the store of the pool
	Query   string        `json:"query,omitempty"`  // to the source
	Range   time.Duration `json:"range_ns"`
	Took    time.Duration `json:"took_ns"`
	Problem string        `json:"problem,omitempty"` // why the signal is not evaluated; empty: it is
	Series  []TriedSeries `json:"series"`
}

// TriedSeries is one series of a window.
type TriedSeries struct {
	Name   string    `json:"name"` // that the signal receives
	Points int       `json:"points"`
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	Last   float64   `json:"last"`
	// Gaps is how many points are missing between the oldest and the newest; nil: the distance of the points is unknown.
	Gaps *int `json:"gaps,omitempty"`
}
