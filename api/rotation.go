package api

import (
	"fmt"
	"time"
)

// RotationState is what the rotations of a pool have done since the first machine was to be replaced. It outlasts a restart and a
// takeover. All rotations of a pool, rolls included, have one state: a bad image is bad for each of them.
type RotationState struct {
	// Since is when the first machine matched, by the wall clock. A machine that was launched later is new: it must pass the gate.
	Since time.Time `json:"since"`
	// Proven: a new machine has passed, so several may be replaced at the same time.
	Proven   bool              `json:"proven,omitempty"`
	Replaced int               `json:"replaced,omitempty"` // machines that were chosen to leave
	Trials   []RotationTrial   `json:"trials,omitempty"`   // new machines that have not passed, in order of id
	Passed   []string          `json:"passed,omitempty"`   // new machines that have, sorted
	Failed   []RotationFailure `json:"failed,omitempty"`   // new machines that did not pass, the first one first
	Halted   time.Time         `json:"halted,omitzero"`    // when too many had failed; zero: they have not
	Refused  map[string]string `json:"refused,omitempty"`  // why a rule is not followed, by its key: it matches the new machines too
	Ended    []RotationEnd     `json:"ended,omitempty"`    // what counts for the rate, oldest first
}

// RotationTrial is a new machine that has not passed its health gate. Since is when it became fit or unfit, by the rules' clock.
type RotationTrial struct {
	ID    string    `json:"id"`
	Fit   bool      `json:"fit,omitempty"`
	Since time.Time `json:"since,omitzero"` // zero: its node has not joined
}

// RotationFailure is a new machine that did not pass its health gate.
type RotationFailure struct {
	ID  string    `json:"id"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// RotationEnd is how many machines were chosen to leave at a time, by the rules' clock.
type RotationEnd struct {
	At       time.Time `json:"at"`
	Machines int       `json:"machines"`
}

// Rotation is the part of a case that replaces machines.
type Rotation struct {
	Rules []RotationRule `json:"rules"`
	// Rolls is the weight of the machines that may be replaced now, by group. Case.Stale has those that wait too.
	Rolls    map[string]int `json:"rolls,omitempty"`
	Left     int            `json:"left"` // machines that are to be replaced
	Replaced int            `json:"replaced,omitempty"`
	Trials   int            `json:"trials,omitempty"` // new machines that have not passed their gate
	// Begin is how many more machines may get a replacement now, and End how many may leave; nil: any number.
	Begin *int `json:"begin,omitempty"`
	End   *int `json:"end,omitempty"`
	// Halted is why no machine is replaced until an operator resumes: new machines failed their gate. Empty: they did not.
	Halted string `json:"halted,omitempty"`
	// Waits is what the rotation waits for, beside the limits of the pool; empty: for nothing.
	Waits string `json:"waits,omitempty"`
	// Closes is when the window closes in which machines are replaced now; zero: none is open, or they need none.
	Closes time.Time `json:"closes,omitzero"`
}

// RotationRule is one reason to replace machines, with the machines that it matches.
type RotationRule struct {
	Name  string    `json:"name"` // such as "roll of blue"
	Group string    `json:"group,omitempty"`
	Where string    `json:"where,omitempty"` // the condition; empty: each machine that was there
	Since time.Time `json:"since,omitzero"`  // of an order: later machines stay
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Total counts the machines of the pool, or of the group. Unknown of them may match: the provider does not report what decides.
	Total   int    `json:"machines"`
	Left    int    `json:"left"`
	Unknown int    `json:"unknown,omitempty"`
	Kept    int    `json:"kept,omitempty"`  // machines that match and are never chosen: an operator or the provider protects them
	First   string `json:"first,omitempty"` // a machine that matches
	// Groups is Left by group.
	Groups  map[string]int `json:"groups,omitempty"`
	Waits   string         `json:"waits,omitempty"`   // why none is replaced now
	Refused string         `json:"refused,omitempty"` // why the rule is not followed
}

// Text returns one line: "rotation of age>20d: 4 of 10 machines are left, 3 replaced".
func (r Rotation) Text(rule RotationRule) string {
	text := fmt.Sprintf("%s: %d of %d machines are left", rule.Name, rule.Left, rule.Total)
	if len(r.Rules) == 1 && r.Replaced > 0 {
		text += fmt.Sprintf(", %d replaced", r.Replaced)
	}
	return text
}

// Lines returns what a rotation does, one line for each rule that matches machines or is refused, then what it waits for.
func (r Rotation) Lines() (lines []string) {
	for _, rule := range r.Rules {
		switch {
		case rule.Refused != "":
			lines = append(lines, rule.Name+" is refused: "+rule.Refused)
		case rule.Left > 0:
			lines = append(lines, r.Text(rule))
		}
		if rule.Kept > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d machines stay, because they are cordoned or protected", rule.Name, rule.Kept))
		}
		if rule.Unknown > 0 {
			lines = append(lines, fmt.Sprintf("%s: whether %d machines match is unknown, so they stay: the provider does not report what decides", rule.Name, rule.Unknown))
		}
	}
	switch {
	case r.Halted != "":
		lines = append(lines, "rotation halted: "+r.Halted)
	case r.Waits != "":
		lines = append(lines, "rotation: "+r.Waits)
	}
	if r.Left > 0 && !r.Closes.IsZero() {
		lines = append(lines, "rotation: "+closesText(r.Closes))
	}
	return lines
}

// Alarms returns why the rotations do not go on until an operator acts.
func (r *Rotation) Alarms() (lines []string) {
	if r == nil {
		return nil
	}
	for _, rule := range r.Rules {
		if rule.Refused != "" {
			lines = append(lines, rule.Name+" is refused: "+rule.Refused)
		}
	}
	if r.Halted != "" {
		lines = append(lines, "rotation halted: "+r.Halted)
	}
	return lines
}

// RotationSummary is the short form of a Rotation.
type RotationSummary struct {
	Closes   time.Time `json:"closes,omitzero"` // as in Rotation
	Left     int       `json:"left"`            // machines that are to be replaced
	Replaced int       `json:"replaced,omitempty"`
	Trials   int       `json:"trials,omitempty"` // new machines that have not passed their gate
	// Text is about the first rules, and what they wait for. Alarms are why the rotations do not go on until an operator acts.
	Text   string   `json:"text,omitempty"`
	Alarms []string `json:"alarms,omitempty"`
}

// closesText names the end of a window.
func closesText(at time.Time) string {
	return "its window closes on " + at.Format("Mon 2006-01-02 15:04 MST")
}

// Progress returns the rotations as one line: "3 of 10 machines are replaced, 2 new machines are not proven yet; ...".
func (r RotationSummary) Progress() string {
	text := fmt.Sprintf("%d of %d machines are replaced", r.Replaced, r.Replaced+r.Left)
	switch {
	case r.Trials == 1:
		text += ", 1 new machine is not proven yet"
	case r.Trials > 1:
		text += fmt.Sprintf(", %d new machines are not proven yet", r.Trials)
	}
	if r.Left > 0 && !r.Closes.IsZero() {
		text += "; " + closesText(r.Closes)
	}
	if r.Text != "" {
		text += "; " + r.Text
	}
	return text
}
