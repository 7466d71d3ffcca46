package state

// ShardKey returns the key of an app's shard.
func ShardKey(app string) string { return shardKey(app) }
