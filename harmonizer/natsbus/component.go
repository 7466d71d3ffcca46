package natsbus

import (
	"fmt"
	"time"
)

const (
	subjectAnnounce = "vcap.component.announce"
	subjectDiscover = "vcap.component.discover"
)

// Component is how a collector finds our metrics.
type Component struct {
	Index int    // of this one among health managers
	Host  string // address and port of the metrics; empty: nobody is told
}

// descriptor is the wire form of a component. A health manager of old adds its
// password; ours are not for everybody on the bus.
type descriptor struct {
	Type   string `json:"type"`
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Host   string `json:"host"`
	Start  string `json:"start"`
	Uptime string `json:"uptime"`
}

// self is this bus as a component.
type self struct {
	Component
	id    string
	began time.Time
}

func (s self) descriptor(now time.Time) descriptor {
	up := max(now.Sub(s.began), 0)
	return descriptor{
		Type:  "HealthManager",
		Index: s.Index,
		UUID:  fmt.Sprintf("%d-%s", s.Index, s.id),
		Host:  s.Host,
		Start: s.began.Format("2006-01-02 15:04:05 -0700"),
		Uptime: fmt.Sprintf("%dd:%dh:%dm:%ds", up/(24*time.Hour), up/time.Hour%24,
			up/time.Minute%60, up/time.Second%60),
	}
}
