package web

import (
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// maxCached bounds the compressed fragments in memory. Each has up to about 60 kB.
const maxCached = 64

// cache keeps compressed fragments of live pages, so that 100 viewers of one pool cost as much as one.
type cache struct {
	mu    sync.Mutex
	parts map[string][]byte
	order []string // oldest first
}

// get returns the fragment of a key; make makes it if it is missing.
func (c *cache) get(key string, make func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if part, ok := c.parts[key]; ok {
		return part, nil
	}
	part, err := make()
	if err != nil {
		return nil, err
	}
	if c.parts == nil {
		c.parts = map[string][]byte{}
	}
	if len(c.order) >= maxCached {
		delete(c.parts, c.order[0])
		c.order = c.order[1:]
	}
	c.parts[key], c.order = part, append(c.order, key)
	return part, nil
}

// sparks keeps the plot of each pool in the fleet. The work of an update is in proportion to the pools that changed.
type sparks struct {
	mu   sync.Mutex
	last map[string]spark
}

// spark is the plot of one pool, and the columns of its trouble.
type spark struct {
	sparkKey
	markup  []byte
	trouble []series.Bin
}

// sparkKey is what a plot depends on.
type sparkKey struct {
	tick, to time.Time
	height   int
}

// get returns the plot of a pool, if it has this key.
func (c *sparks) get(id string, key sparkKey) (spark, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.last[id]
	return one, ok && one.sparkKey == key
}

// maxSparks bounds the plots of pools that do not exist any more.
const maxSparks = 4096

func (c *sparks) put(id string, one spark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= maxSparks {
		c.last = map[string]spark{}
	}
	c.last[id] = one
}

// maxWindows bounds the windows of the past in memory. Each has up to about 3000 ticks.
const maxWindows = 4

// windows keeps the rings of the newest windows that are longer than the memory of the pages. A ring does not change.
type windows struct {
	mu   sync.Mutex
	kept map[string]keptWindow
}

type keptWindow struct {
	to   time.Time
	ring *series.Ring
}

// get returns the ring of a window with this end; read reads it if it is missing.
func (c *windows) get(key string, to time.Time, read func() (*series.Ring, error)) (*series.Ring, error) {
	c.mu.Lock()
	one, ok := c.kept[key]
	c.mu.Unlock()
	if ok && one.to.Equal(to) {
		return one.ring, nil
	}
	ring, err := read()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxWindows {
		c.kept = map[string]keptWindow{}
	}
	c.kept[key] = keptWindow{to, ring}
	return ring, nil
}
