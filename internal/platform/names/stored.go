package names

// A key-value bucket's name may have letters, digits, - and _ only. A cluster's name may have the same characters, so
// each kind of bucket has a prefix of its own, which ends in _: no two clusters share a bucket. A stream's name may have
// a colon, which no cluster and no pool may have.

// StateBucket returns the bucket of a cluster's leases and unfinished work. Its daemons write it.
func StateBucket(cluster string) string { return "weir-state_" + cluster }

// OrdersBucket returns the bucket of a cluster's orders. Operators write it; the pools delete what has ended.
func OrdersBucket(cluster string) string { return "weir-orders_" + cluster }

// AppsBucket returns the bucket of a cluster's expected applications. Operators and cloud controllers write it.
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
