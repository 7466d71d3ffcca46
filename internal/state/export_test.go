package state

// SetBudget limits a pool's records to that many bytes.
func SetBudget(l *Ledger, bytes int64) { l.usage.budget = bytes }

// ShardKey returns the key of an app's shard.
func ShardKey(app string) string { return shardKey(app) }
