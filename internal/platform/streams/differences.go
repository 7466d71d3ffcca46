package streams

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// differences returns how the settings of a stream differ from those of its specification, one text for each.
func differences(want, got jetstream.StreamConfig) (all []string) {
	differ := func(setting string, want, got any, differs bool) {
		if differs {
			all = append(all, fmt.Sprintf("%s is %v, want %v", setting, got, want))
		}
	}
	unlimited := func(n int64) int64 { return max(n, 0) }
	bytes := func(setting string, want, got int64) {
		differ(setting, unlimited(want), unlimited(got), unlimited(want) != unlimited(got))
	}
	flag := func(setting string, want, got bool) { differ(setting, want, got, want != got) }
	differ("subjects", want.Subjects, got.Subjects, !slices.Equal(want.Subjects, got.Subjects))
	differ("republish", republished(want), republished(got), republished(want) != republished(got))
	differ("retention", want.Retention, got.Retention, want.Retention != got.Retention)
	differ("discard", want.Discard, got.Discard, want.Discard != got.Discard)
	flag("allow_direct", want.AllowDirect, got.AllowDirect)
	flag("allow_msg_ttl", want.AllowMsgTTL, got.AllowMsgTTL)
	flag("allow_rollup_hdrs", want.AllowRollup, got.AllowRollup)
	flag("allow_msg_schedules", want.AllowMsgSchedules, got.AllowMsgSchedules)
	flag("allow_msg_counter", want.AllowMsgCounter, got.AllowMsgCounter)
	flag("allow_atomic", want.AllowAtomicPublish, got.AllowAtomicPublish)
	flag("deny_delete", want.DenyDelete, got.DenyDelete)
	flag("deny_purge", want.DenyPurge, got.DenyPurge)
	flag("a mirror", want.Mirror != nil, got.Mirror != nil)
	flag("with sources", len(want.Sources) > 0, len(got.Sources) > 0)
	flag("with a subject transform", want.SubjectTransform != nil, got.SubjectTransform != nil)
	bytes("max_msgs_per_subject", want.MaxMsgsPerSubject, got.MaxMsgsPerSubject)
	bytes("max_msgs", want.MaxMsgs, got.MaxMsgs)
	bytes("max_bytes", want.MaxBytes, got.MaxBytes)
	bytes("max_msg_size", int64(want.MaxMsgSize), int64(got.MaxMsgSize))
	differ("max_age", want.MaxAge, got.MaxAge, want.MaxAge != got.MaxAge)
	differ("duplicate_window", want.Duplicates, got.Duplicates, want.Duplicates != got.Duplicates)
	differ("compression", want.Compression, got.Compression, want.Compression != got.Compression)
	differ("num_replicas", want.Replicas, got.Replicas, want.Replicas != got.Replicas)
	return all
}

func republished(c jetstream.StreamConfig) string {
	if c.RePublish == nil {
		return "nothing"
	}
	text := c.RePublish.Source + " to " + c.RePublish.Destination
	if c.RePublish.HeadersOnly {
		text += ", headers only"
	}
	return text
}
