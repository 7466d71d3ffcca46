// Package migrate moves a cluster's data from the layout before ADR 34 to the present one: the buckets weir_CLUSTER
// and weir_CLUSTER_apps, and the streams WEIR_DECISIONS and WEIR_EVIDENCE of all pools.
//
//	result, err := migrate.Run(ctx, migrate.Config{JS: js, Cluster: c, Holder: me, Progress: print})
//
// # Steps
//
// Run stops if a daemon renews a lease of the old bucket. It takes all leases by compare-and-set and renews them, so no
// old daemon acts. It copies the ledger and the evidence, then the keys. It marks the old bucket with schema version 2
// and seals it and the bucket of applications: from then on the server refuses every write to them. Run compares the
// copies with the sealed buckets. At last it writes the valid schema into the new buckets.
//
// # An interrupted run
//
// Until the last step the schemas of the new buckets have version 0, which every process refuses. Each step can be
// repeated: a copied message has the sequence number of its source in a header, and keys are compared first. So a run
// after kill -9 continues and has the same result. An interrupt releases the leases.
//
// # Epochs
//
// The new bucket starts far above the last sequence number of the old one. A lease keeps its epoch and is released.
// So an epoch never goes back, also after the loss of a lease's key.
//
// # Concurrency
//
// Run may be called by several processes. The lease "migrate" of the old bucket admits one of them.
package migrate
