package varz

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
)

// numbers are the figures of the classic health manager, under its names. Durations are in
// seconds.
type numbers struct {
	State string `json:"state"` // always RUNNING

	TotalApps         int   `json:"total_apps"`
	TotalUsers        int64 `json:"total_users"` // 0 also if unknown: collectors need a number
	TotalInstances    int   `json:"total_instances"`
	RunningInstances  int   `json:"running_instances"`
	MissingInstances  int   `json:"missing_instances"`
	CrashedInstances  int   `json:"crashed_instances"`
	FlappingInstances int   `json:"flapping_instances"`

	QueueLength    int     `json:"queue_length"`
	Analysis       float64 `json:"analysis_loop_duration"` // longest step: there is no analysis loop
	BulkUpdate     float64 `json:"bulk_update_loop_duration"`
	Heartbeats     uint64  `json:"heartbeat_msgs_received"`
	Exits          uint64  `json:"droplet_exited_msgs_received"`
	Updates        uint64  `json:"droplet_updated_msgs_received"`
	StatusRequests uint64  `json:"healthmanager_status_msgs_received"`
	HealthRequests uint64  `json:"healthmanager_health_request_msgs_received"`
	AppRequests    uint64  `json:"healthmanager_droplet_request_msgs_received"`
	Starts         uint64  `json:"health_start_messages_sent"`
	Stops          uint64  `json:"health_stop_messages_sent"`

	Running runningNumbers `json:"running"`
	Total   totalNumbers   `json:"total"`
}

// runningNumbers counts what runs.
type runningNumbers struct {
	Apps              int `json:"apps"`
	Crashes           int `json:"crashes"`
	RunningInstances  int `json:"running_instances"`
	MissingInstances  int `json:"missing_instances"`
	FlappingInstances int `json:"flapping_instances"`
}

// totalNumbers counts what should run. Memory is in MB.
type totalNumbers struct {
	Apps             int     `json:"apps"`
	StartedApps      int     `json:"started_apps"`
	Instances        int     `json:"instances"`
	StartedInstances int     `json:"started_instances"`
	Memory           float64 `json:"memory"`
	StartedMemory    float64 `json:"started_memory"`
}

// numbersOf returns the numbers of a status with totals, the longest step, the last pass of the bulk API, and the users;
// a negative number of users is unknown.
func numbersOf(s api.HarmonizerStatus, longest, pass time.Duration, users int64) numbers {
	t, n := s.Totals.All, s.Counters
	return numbers{
		State:     "RUNNING",
		TotalApps: t.Apps, TotalUsers: max(0, users), TotalInstances: t.Instances,
		RunningInstances: t.Running, MissingInstances: t.Missing, CrashedInstances: t.Crashed, FlappingInstances: t.Flapping,
		QueueLength: s.Queue.Starts + s.Queue.Stops,
		Analysis:    longest.Seconds(),
		BulkUpdate:  pass.Seconds(),
		Heartbeats:  n["heartbeats"], Exits: n["exits"], Updates: n["updates"],
		StatusRequests: n[report.Counter(report.SubjectStatus)],
		HealthRequests: n[report.Counter(report.SubjectHealth)],
		AppRequests:    n[report.Counter(report.SubjectDroplet)],
		Starts:         n["nudges_start"], Stops: n["nudges_stop"],
		Running: runningNumbers{
			Apps: t.StartedApps, Crashes: t.Crashes,
			RunningInstances: t.Running, MissingInstances: t.Missing, FlappingInstances: t.Flapping,
		},
		Total: totalNumbers{
			Apps: t.Apps, StartedApps: t.StartedApps, Instances: t.Instances, StartedInstances: t.StartedInstances,
			Memory: t.Memory, StartedMemory: t.StartedMemory,
		},
	}
}
