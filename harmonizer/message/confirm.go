package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	// HeaderNudge is the id of a nudge, one token. A scheduler confirms the nudge by it. A nudge without the header
	// needs no confirmation.
	HeaderNudge = "Weir-Nudge"
	// HeaderKeepAlive is how long a nudge holds, in seconds. The sender repeats the request afterwards. If no scheduler
	// has confirmed it by then, operators get a problem.
	HeaderKeepAlive = "Weir-Keep-Alive"
	// MaxConfirmed bounds the nudges in a Confirmation.
	MaxConfirmed = 1000

	maxConfirmation = 128 << 10 // bytes
	maxNever        = 512 << 10 // bytes
	maxLimited      = 1 << 10   // bytes
)

// ConfirmedSubject returns the subject of the confirmations of a pool's scheduler.
func ConfirmedSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "confirmed")
}

// OfScheduler returns the pool and the last token of a subject of a scheduler; empty for another subject.
func OfScheduler(subject string) (pool, what string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) == 5 && tokens[0] == "weir" && tokens[2] == "placer" {
		return tokens[3], tokens[4]
	}
	return "", ""
}

// PlacesSubject returns the subject on which the scheduler of a pool answers an api.PlacesQuestion.
func PlacesSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "places")
}

// NeverSubject returns the subject of the copies of a pool that no machine can hold.
func NeverSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "never")
}

// PlacedSubject returns the subject on which the scheduler of a pool answers an api.PlacedQuery.
func PlacedSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "placed")
}

// StateSubject returns the subject of the api.SchedulerState of a pool.
func StateSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "state")
}

// GoneSubject returns the subject on which the autoscaler of a pool reports an api.NodeGone.
func GoneSubject(cluster string, n Node) string {
	return names.Subject(cluster, "agent", n.Pool, n.Name, "gone")
}

// LimitedSubject returns the subject of an api.LimitedSender at an inbox of a pool's daemon; without a pool, at the metrics store.
func LimitedSubject(cluster, pool string) string {
	if pool == "" {
		return names.Subject(cluster, "metrics", "limited")
	}
	return names.Subject(cluster, "placer", pool, "limited")
}

// DecodeLimited decodes an api.LimitedSender from the LimitedSubject of a pool, or of the metrics store. Unknown fields are ignored.
func DecodeLimited(pool string, data []byte) (api.LimitedSender, error) {
	if len(data) > maxLimited {
		return api.LimitedSender{}, fmt.Errorf("decode limited sender: %d bytes, at most %d are allowed", len(data), maxLimited)
	}
	var s api.LimitedSender
	err := json.Unmarshal(data, &s)
	switch {
	case err != nil:
	case pool == "":
		err = names.CheckToken("writer", s.Writer)
		_, s.Pool, _ = strings.Cut(s.Writer, "_") // placer_POOL; others have none
		s.Node = ""
	case s.Pool != pool || s.Writer != "":
		err = fmt.Errorf("subject of pool %.80q: the sender is %.80q of pool %.80q", pool, s.Node+s.Writer, s.Pool)
	default:
		err = Node{s.Pool, s.Node}.Validate()
	}
	if err != nil {
		return api.LimitedSender{}, fmt.Errorf("decode limited sender: %w", err)
	}
	return s, nil
}

// DecodeState decodes the api.SchedulerState from the subject of a pool. Unknown fields are ignored.
func DecodeState(pool string, data []byte) (api.SchedulerState, error) {
	if len(data) > MaxNodeMessage {
		return api.SchedulerState{}, fmt.Errorf("decode state of the scheduler: %d bytes, at most %d are allowed", len(data), MaxNodeMessage)
	}
	var s api.SchedulerState
	err := Unmarshal(data, &s, "pool", "kind", "rows", "fresh", "period")
	if err == nil && s.Pool != pool {
		err = fmt.Errorf("subject of pool %.80q: the state is of pool %.80q", pool, s.Pool)
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return api.SchedulerState{}, fmt.Errorf("decode state of the scheduler: %w", err)
	}
	return s, nil
}

// DecodeConfirmation decodes a Confirmation. Unknown fields are ignored.
func DecodeConfirmation(data []byte) (api.Confirmation, error) {
	if len(data) > maxConfirmation {
		return api.Confirmation{}, fmt.Errorf("decode confirmation: %d bytes, at most %d are allowed", len(data), maxConfirmation)
	}
	var c api.Confirmation
	if err := json.Unmarshal(data, &c); err != nil {
		return api.Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
	}
	if err := names.CheckToken("pool", c.Pool); err != nil {
		return api.Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
	}
	if len(c.Nudges) > MaxConfirmed {
		return api.Confirmation{}, fmt.Errorf("decode confirmation: %d nudges, at most %d are allowed", len(c.Nudges), MaxConfirmed)
	}
	for _, id := range c.Nudges {
		if err := names.CheckToken("nudge", id); err != nil {
			return api.Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
		}
	}
	for _, w := range c.Waiting {
		for _, index := range w.Indices {
			if index < 0 || index >= MaxInstances {
				return api.Confirmation{}, fmt.Errorf("decode confirmation: index %d of app %.80q is outside 0 to %d", index, w.App, MaxInstances-1)
			}
		}
	}
	return c, nil
}

// ChunkWaiting divides starts into parts that each fit in a Confirmation. It keeps their order.
func ChunkWaiting(all []api.WaitingStart) (parts [][]api.WaitingStart) {
	const most, entry = 10_000, 200 // in indices of 7 bytes: of a part, and for the other fields of an entry
	size := most
	for _, w := range all {
		for indices := range slices.Chunk(w.Indices, most-entry) {
			if size += entry + len(indices); size > most {
				parts, size = append(parts, nil), entry+len(indices)
			}
			last := &parts[len(parts)-1]
			*last = append(*last, api.WaitingStart{App: w.App, Version: w.Version, Indices: indices})
		}
	}
	return parts
}

// DecodeNever decodes an api.NeverPlaced. Unknown fields are ignored.
func DecodeNever(data []byte) (api.NeverPlaced, error) {
	if len(data) > maxNever {
		return api.NeverPlaced{}, fmt.Errorf("decode copies without a place: %d bytes, at most %d are allowed", len(data), maxNever)
	}
	var n api.NeverPlaced
	err := json.Unmarshal(data, &n)
	if err == nil {
		err = errors.Join(names.CheckToken("pool", n.Pool), n.Validate())
	}
	if err != nil {
		return api.NeverPlaced{}, fmt.Errorf("decode copies without a place: %w", err)
	}
	return n, nil
}
