package state

// SetBudget has a pool keep so many bytes of records.
func SetBudget(l *Ledger, bytes int64) { l.usage.budget = bytes }
