package api

import (
	"fmt"
	"time"
)

// HarmonizerOrder is the request on message.OrderSubject.
type HarmonizerOrder struct {
	Op  string `json:"op"` // OpRelease or OpRetry
	App string `json:"app,omitempty"`
	// Index of App that OpRetry applies to; nil: all.
	Index *int `json:"index,omitempty"`
}

// HarmonizerOrderAnswer answers an Order.
type HarmonizerOrderAnswer struct {
	OK      bool   `json:"ok"`
	Nothing bool   `json:"nothing,omitempty"` // if OK: the order had no effect
	Error   string `json:"error,omitempty"`   // if not OK: the reason
}

// NudgeQueue is the length of each queue.
type NudgeQueue struct {
	Starts int `json:"starts"` // indices to start
	Stops  int `json:"stops"`  // copies to stop
	Send   int `json:"send"`   // nudges whose memory is not saved yet
	Save   int `json:"save"`   // memories to save
}

// HarmonizerShadow is the part of a Status about shadow mode.
type HarmonizerShadow struct {
	ShadowStats
	Last []ShadowMismatch `json:"last,omitempty"` // the newest, in order of time
}

// HarmonizerStatus is the state of the harmonizer, for people.
type HarmonizerStatus struct {
	Complete bool   `json:"complete"`
	Why      string `json:"why,omitempty"` // why it is incomplete; nothing is stopped then
	// Repairing: the state is incomplete, but lost instances are started again by the last
	// complete read of the expected state.
	Repairing bool              `json:"repairing,omitempty"`
	At        time.Time         `json:"at"`
	Counters  map[string]uint64 `json:"counters"`

	Leading bool   `json:"leading"`
	Leader  string `json:"leader,omitempty"` // the leader, if this harmonizer follows and has found it
	Epoch   uint64 `json:"epoch,omitempty"`  // of the lease

	// Alarms; zero: off.
	NoLeader  time.Time `json:"no_leader_since,omitzero"` // since when this harmonizer has seen no leader
	Unwritten time.Time `json:"unwritten_since,omitzero"` // since when saves of sent nudges fail

	// Silent has the first silent nodes; SilentNodes is their number.
	Silent      []SilentNode `json:"silent,omitempty"`
	SilentNodes int          `json:"silent_nodes,omitempty"`

	// Wrong has the first nodes that send statements that do not count, or too much; WrongSenders is their number.
	Wrong        []WrongSender `json:"wrong,omitempty"`
	WrongSenders int           `json:"wrong_senders,omitempty"`

	// Unanswered has the first unanswered requests to schedulers; UnansweredApps is their number.
	Unanswered     []UnansweredNudge `json:"unanswered,omitempty"`
	UnansweredApps int               `json:"unanswered_apps,omitempty"`

	// Halted has the first applications whose update is halted, in order of name; HaltedApps is their number.
	Halted     []HaltedApp `json:"halted,omitempty"`
	HaltedApps int         `json:"halted_apps,omitempty"`

	DisruptionLimit LimitStatus       `json:"disruption_limit"`
	Queue           NudgeQueue        `json:"queue"`
	Shadow          *HarmonizerShadow `json:"shadow,omitempty"` // in shadow mode

	Apps []AppSummary    `json:"apps,omitempty"` // all apps in order of name, if nothing else was requested
	App  *AppExplanation `json:"app,omitempty"`  // the requested app, if it is known

	Crashes []AppCrash        `json:"crashes,omitempty"` // of the requested app, if requested
	Totals  *HarmonizerTotals `json:"totals,omitempty"`  // if requested
	Nodes   []HarmonizerNode  `json:"nodes,omitempty"`   // of the requested pool, in order of name

	Omitted int `json:"omitted,omitempty"` // number of apps, indices of the app, or nodes that are left out
}

// Unready returns why the harmonizer is not ready, one sentence per cause. It returns nil if
// the harmonizer is ready, or a standby while another harmonizer leads.
func (s HarmonizerStatus) Unready() []string {
	var why []string
	if !s.NoLeader.IsZero() {
		why = append(why, fmt.Sprintf("no harmonizer leads since %s: nothing is started or stopped; check NATS and its JetStream",
			s.NoLeader.Format(time.RFC3339)))
	}
	if !s.Unwritten.IsZero() {
		why = append(why, fmt.Sprintf("the harmonizer cannot save its state since %s: starts continue, stops wait; check JetStream's storage",
			s.Unwritten.Format(time.RFC3339)))
	}
	return why
}

// LimitedSender is a node, or a daemon that writes metrics, which lost messages at an inbox: it sends more than its share, or too large
// ones. The daemon of the inbox publishes it, and the harmonizer reports it as a WrongSender.
type LimitedSender struct {
	Pool   string `json:"pool,omitempty"`
	Node   string `json:"node,omitempty"`
	Writer string `json:"writer,omitempty"` // of the metrics store, such as "placer_web"
	Lost   uint64 `json:"lost"`             // messages since the last report of the same inbox
}

// WrongSender is a node, or a writer of metrics, whose statements changed nothing in the last minute, for one reason.
type WrongSender struct {
	Pool   string    `json:"pool,omitempty"` // empty for a legacy DEA
	Node   string    `json:"node"`
	Writer string    `json:"writer,omitempty"` // of metrics, such as "placer_web"; then Node is empty
	Why    AppReason `json:"why"`
	Since  time.Time `json:"since"`
	Count  uint64    `json:"count"`            // statements, at all inboxes that received them
	Detail string    `json:"detail,omitempty"` // of the latest one, for people
}

// String returns a sentence for operators.
func (w WrongSender) String() string {
	effect := "it changes nothing"
	if w.Why.unreadable() {
		effect = "what is not readable is unknown and stays as it is"
	}
	who, log := "node "+NodeName(w.Pool, w.Node), "its agent"
	if w.Writer != "" {
		who, log = "the writer "+w.Writer+" of the metrics store", "the daemon with that role"
	}
	text := fmt.Sprintf("%s %s: %d times since %s, and %s", who, w.Why.Wrong(), w.Count, w.Since.UTC().Format(time.RFC3339), effect)
	if w.Detail != "" {
		text += " (" + w.Detail + ")"
	}
	return text + "; see the log of " + log + ", and replace its key if it is not yours"
}

// HarmonizerQuery is the request on message.StatusSubject. The answer is a Status. An empty
// message requests a summary of all apps.
type HarmonizerQuery struct {
	App     string `json:"app,omitempty"`     // only this app, index by index
	Crashes bool   `json:"crashes,omitempty"` // with its crashes
	Totals  bool   `json:"totals,omitempty"`  // the sums of each pool and label, without apps
	Nodes   string `json:"nodes,omitempty"`   // the nodes of this pool, without apps
}

// HarmonizerNode is a node that sends heartbeats.
type HarmonizerNode struct {
	Node   string `json:"node"`
	Copies int    `json:"copies"` // that it lists
}

// HarmonizerTotals are sums over apps.
type HarmonizerTotals struct {
	Pools  map[string]PoolTotals            `json:"pools"`
	All    PoolTotals                       `json:"all"`
	Labels map[string]map[string]PoolTotals `json:"labels"` // label -> value -> sums
}

// UnansweredNudge are the nudges of one app that no scheduler has confirmed within their keep-alive, or an app in the pool of a
// scheduler that runs no rows.
type UnansweredNudge struct {
	App    string    `json:"app"`
	Pool   string    `json:"pool,omitempty"` // empty: the app has no row
	Stop   bool      `json:"stop,omitempty"` // stops, otherwise starts
	Since  time.Time `json:"since"`          // when the first of them was sent
	Nudges int       `json:"nudges"`         // number of nudges since then
	// Kind is that of a scheduler that runs no rows: nothing is requested of it. Since and Nudges are zero then.
	Kind string `json:"kind,omitempty"`
}

// ShadowAct is one requested operation: the start of an index, or the stop of an instance.
type ShadowAct struct {
	Op       ShadowOp `json:"op"`
	App      string   `json:"app"`
	Version  string   `json:"version,omitempty"`  // of a start
	Index    int      `json:"index"`              // of a start
	Instance string   `json:"instance,omitempty"` // of a stop
}

// String returns the act as text: "start web/3 version v1", "stop web instance i7".
func (a ShadowAct) String() string {
	if a.Op == ShadowStart {
		return fmt.Sprintf("start %s/%d version %s", a.App, a.Index, a.Version)
	}
	return fmt.Sprintf("stop %s instance %s", a.App, a.Instance)
}

// ShadowMismatch is an act of one side without a match of the other within the window.
type ShadowMismatch struct {
	By ShadowSide `json:"by"`
	ShadowAct
	At time.Time `json:"at"`
}

// String returns the mismatch as text, without its time.
func (m ShadowMismatch) String() string { return string(m.By) + " alone: " + m.ShadowAct.String() }

// ShadowOp is the operation of an act. The strings are stable.
type ShadowOp string

const (
	ShadowStart ShadowOp = "start"
	ShadowStop  ShadowOp = "stop"
)

// ShadowSide is one of the two harmonizers. The strings are stable.
type ShadowSide string

const (
	ShadowOwn   ShadowSide = "own"   // this harmonizer
	ShadowOther ShadowSide = "other" // the other harmonizer
)

// ShadowStats counts the acts of a Matcher since New.
type ShadowStats struct {
	Matched uint64 `json:"matched"` // of both sides
	Own     uint64 `json:"own"`     // only ours
	Other   uint64 `json:"other"`   // only the other's
	Dropped uint64 `json:"dropped"` // not compared, because Limit was reached
}

// Operations of an Order.
const (
	OpReleaseLimit = "release" // ends the hold of the disruption limit
	OpRetry        = "retry"   // ends the restart delays of an app, also after giving up
)
