package state

// SetBudget has a pool keep so many bytes of records.
func SetBudget(l *Ledger, bytes int64) { l.usage.budget = bytes }

// ShardKey returns the key of an app's shard.
func ShardKey(app string) string { return shardKey(app) }
