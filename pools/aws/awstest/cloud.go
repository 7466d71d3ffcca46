package awstest

import (
	"container/heap"
	"fmt"
	"time"
)

const (
	// fade is how long EC2 tells of an instance that is terminated.
	fade = time.Hour
	// notice is how long before the end Amazon warns of an interruption.
	notice = 2 * time.Minute
	// settleAfter is how long Auto Scaling takes to begin what it is asked for.
	settleAfter = time.Second
	// validateAfter is how long a fleet's request is looked at.
	validateAfter = 5 * time.Second
	// defaultCooldown is that of every group.
	defaultCooldown = 5 * time.Minute
)

// cloud is Amazon: its things, its clock and what is going to happen. The
// Server's mutex guards it.
type cloud struct {
	config Config
	url    string // of the server
	now    time.Time
	world
	queue   queue
	outcome string // of the next root volume that is replaced; empty: success
	stock   map[Market]int
	quota   map[Quota]int
	agenda  agenda
	serial  int // names things
	endings []Ending
}

func newCloud(c Config) *cloud {
	return &cloud{config: c, now: c.Start, stock: map[Market]int{}, quota: map[Quota]int{}}
}

// name returns an id that no other thing has.
func (c *cloud) name(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s-%017x", prefix, c.serial)
}

func (c *cloud) uuid() string {
	c.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", c.serial, c.serial)
}

// after has something happen once that much time has passed.
func (c *cloud) after(d time.Duration, do func()) {
	c.serial++
	heap.Push(&c.agenda, event{at: c.now.Add(d), serial: c.serial, do: do})
}

// advance lets time pass, and everything happen that falls due meanwhile.
func (c *cloud) advance(to time.Time) {
	for len(c.agenda) > 0 && !c.agenda[0].at.After(to) {
		e := heap.Pop(&c.agenda).(event)
		c.now = e.at
		e.do()
	}
	c.now = to
}

// event is something that is going to happen.
type event struct {
	at     time.Time
	serial int // events of the same moment keep their order
	do     func()
}

// agenda is a heap of events, the next one first.
type agenda []event

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].serial < a[j].serial
	}
	return a[i].at.Before(a[j].at)
}
func (a *agenda) Push(e any) { *a = append(*a, e.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}
