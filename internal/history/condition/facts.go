package condition

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// Facts are known facts of a pool beside its ticks. A missing part is unknown.
type Facts struct {
	Lease      Lease
	Apps       []Instances
	Nodes      []Unfit  // nodes that node health reports as unfit
	Alarm      string   // why stored data of the pool is damaged or lost; empty: it is not
	Unanswered []string // requests of the harmonizer without an answer, a line each
	Refused    []string // applications that the scheduler of the pool does not run, a line each
	Scheduler  []string // problems that the scheduler of the pool reports, a line each
	Wrong      []string // nodes that send what does not count, a line each
}

// Lease is the right to act on the pool. The zero value is unknown: then no sentence is about it.
type Lease struct {
	Known  bool
	Holder string // empty: no process holds it
}

// Instances counts the instances of one app.
type Instances struct {
	App               string
	Expected, Running int
	Missing, Flapping int
	Why               string     // why the missing instances wait
	Each              string     // what the first of them needs: "0.2 cpus"; empty: unknown
	Crash             *CrashLoop // what the harmonizer reports of the flapping ones; nil: unknown
	Update            string     // why the update to another version is halted; empty: it is not
}

// missing describes the missing instances of an app.
func (a Instances) missing() string {
	text := fmt.Sprintf("%d of %s missing", a.Missing, prose.Count(a.Expected, "instance"))
	if a.Why != "" {
		text += " (" + a.Why + ")"
	}
	return text
}

// CrashLoop is what the harmonizer reports of the instances of one app that crash repeatedly. Its times are of the harmonizer.
type CrashLoop struct {
	Index       int       // of the copy that crashed last
	Count       int       // its known crashes in a row
	First, Last time.Time // of these crashes
	Cause       string    // "exit 1"; empty: unknown
	Next        time.Time // its next start; zero: none is due
	GivenUp     int       // copies that are not started again
}

// Text returns what happened, and what happens next: "copy 2 crashed 3 times in 40 s (exit 1); next start in 20 s".
func (c CrashLoop) Text(now time.Time) string {
	text := fmt.Sprintf("copy %d crashed", c.Index)
	if c.Count > 1 {
		text += fmt.Sprintf(" %d times", c.Count)
		if d := c.Last.Sub(c.First); d >= time.Second {
			text += " in " + Duration(d)
		}
	}
	if c.Cause != "" {
		text += " (" + c.Cause + ")"
	}
	switch {
	case c.GivenUp > 0:
		return text + fmt.Sprintf("; %s given up and not started again", prose.Count(c.GivenUp, "instance")+are(c.GivenUp))
	case c.Next.After(now):
		return text + "; next start in " + Duration(c.Next.Sub(now))
	}
	return text
}

// Unfit is a node that node health reports as unfit.
type Unfit struct {
	ID, Group string
	Word      string // "Repairing", "Node unhealthy"
	Why       string // cause, action, attempt and next step
	Since     time.Time
}
