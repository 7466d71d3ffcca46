package names

import "strings"

// A name of a stream may have a colon, which no cluster and no pool may have. So no two clusters and no two pools share a
// bucket or a stream.

// PoolBucket returns the bucket of a pool's lease, state and orders.
func PoolBucket(cluster, pool string) string { return "weir-pool:" + cluster + ":" + pool }

// PlacerBucket returns the bucket of the lease and the assignments of a pool's placer.
func PlacerBucket(cluster, pool string) string { return "weir-placer:" + cluster + ":" + pool }

// HarmonizerBucket returns the bucket of the lease and the memory of a cluster's harmonizer.
func HarmonizerBucket(cluster string) string { return "weir-harmonizer:" + cluster }

// AuthBucket returns the bucket of the public keys of a cluster's agents.
func AuthBucket(cluster string) string { return "weir-auth:" + cluster }

// NotifyBucket returns the bucket of the positions of a cluster's targets of events.
func NotifyBucket(cluster string) string { return "weir-notify:" + cluster }

// AppsBucket returns the bucket of a cluster's expected applications. Operators write it, and so may programs with a client
// library, which accepts no colon in the name of a bucket.
func AppsBucket(cluster string) string { return "weir-apps_" + cluster }

// LedgerStream returns the stream of one pool's recorded ticks.
func LedgerStream(cluster, pool string) string { return "weir-ledger:" + cluster + ":" + pool }

// SummaryStream returns the stream with a summary of each of one pool's ticks.
func SummaryStream(cluster, pool string) string { return "weir-summaries:" + cluster + ":" + pool }

// FindingsStream returns the stream of a cluster's findings: those of node health of each pool, and of the harmonizer.
func FindingsStream(cluster string) string { return "weir-findings:" + cluster }

// NoticesStream returns the stream of a cluster's events for webhooks.
func NoticesStream(cluster string) string { return "weir-notices:" + cluster }

// EvidenceStream returns the stream of the records about one pool's sick nodes.
func EvidenceStream(cluster, pool string) string { return "weir-evidence:" + cluster + ":" + pool }

// LiveSubject returns the subject to which a stream republishes what it has stored from a subject of the cluster.
func LiveSubject(cluster, subject string) string {
	return Subject(cluster, "live", strings.TrimPrefix(subject, Subject(cluster, "")))
}

// ChangedSubject returns the subjects to which a bucket republishes the headers of each change, by key.
func ChangedSubject(cluster, bucket string) string { return Subject(cluster, "changed", bucket, ">") }
