package cloudfoundry

import (
	"crypto/rand"
	"fmt"
	"time"
)

// Subjects of announcements.
const (
	SubjectManagerStart      = "healthmanager.start"     // empty; legacy DEAs answer with a Heartbeat
	SubjectComponentAnnounce = "vcap.component.announce" // a Descriptor
	SubjectComponentDiscover = "vcap.component.discover" // empty; the answer is a Descriptor
)

// Component is what a collector needs to find our metrics. NewComponent makes it.
type Component struct {
	Index int    // index among health managers
	Host  string // address and port of /varz and /healthz
	// User and Password protect /varz and /healthz. They are published on the bus, as
	// collectors expect, so use them for nothing else.
	User, Password string

	id    string
	began time.Time
}

// NewComponent returns a component that starts now, with random credentials.
func NewComponent(index int, host string) Component {
	return Component{Index: index, Host: host, User: rand.Text(), Password: rand.Text(), id: rand.Text(), began: time.Now()}
}

// Descriptor returns the component's announcement.
func (c Component) Descriptor(now time.Time) Descriptor {
	up := c.Uptime(now)
	return Descriptor{
		Type:        "HealthManager",
		Index:       c.Index,
		UUID:        fmt.Sprintf("%d-%s", c.Index, c.id),
		Host:        c.Host,
		Credentials: [2]string{c.User, c.Password},
		Start:       c.began.Format("2006-01-02 15:04:05 -0700"),
		Uptime: fmt.Sprintf("%dd:%dh:%dm:%ds", up/(24*time.Hour), up/time.Hour%24,
			up/time.Minute%60, up/time.Second%60),
	}
}

// Uptime returns the time since NewComponent.
func (c Component) Uptime(now time.Time) time.Duration { return max(now.Sub(c.began), 0) }

// Descriptor is the wire form of a component.
type Descriptor struct {
	Type        string    `json:"type"`
	Index       int       `json:"index"`
	UUID        string    `json:"uuid"`
	Host        string    `json:"host"`
	Credentials [2]string `json:"credentials"` // user and password
	Start       string    `json:"start"`
	Uptime      string    `json:"uptime"`
}
