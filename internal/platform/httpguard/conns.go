package httpguard

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// conns bounds the connections of a server. When a new one exceeds the bound, it closes the connection that has waited
// longest without a request. So slow clients do not keep others out.
type conns struct {
	most int
	mu   sync.Mutex
	all  map[net.Conn]conn // open ones
}

// newConns returns a bound of that many connections, which is above 0.
func newConns(most int) *conns { return &conns{most: most, all: map[net.Conn]conn{}} }

// conn is one open connection.
type conn struct {
	since  time.Time // of the state
	active bool      // a request is in progress
}

// State implements http.Server.ConnState.
func (c *conns) State(nc net.Conn, now http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.all[nc]
	switch now {
	case http.StateNew:
		c.all[nc] = conn{since: time.Now()}
		if len(c.all) > c.most {
			c.closeOldest()
		}
	case http.StateActive, http.StateIdle:
		if open { // not closed by closeOldest
			c.all[nc] = conn{since: time.Now(), active: now == http.StateActive}
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.all, nc)
	}
}

// closeOldest closes the connection that has waited longest. The caller has locked c.
func (c *conns) closeOldest() {
	var oldest net.Conn
	for nc, one := range c.all {
		if !one.active && (oldest == nil || one.since.Before(c.all[oldest].since)) {
			oldest = nc
		}
	}
	if oldest == nil {
		return // not possible: the newest one waits
	}
	delete(c.all, oldest)
	if secure, ok := oldest.(*tls.Conn); ok {
		oldest = secure.NetConn() // without a goodbye, which may block
	}
	oldest.Close()
}
