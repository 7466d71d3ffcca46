package config

import (
	"fmt"
	"time"
)

// Ledger bounds the recorded ticks of a pool. NATS removes the oldest beyond either bound. The bounds apply when the
// ledger is created: an existing one keeps its settings.
type Ledger struct {
	MaxAge   time.Duration `yaml:"max_age"`   // 0: 14 days
	MaxBytes Size          `yaml:"max_bytes"` // of the packed records; 0: 512 MiB
}

const (
	leastLedgerAge        = time.Hour
	leastLedgerBytes Size = 64 << 20 // two records of the greatest size
	mostLedgerBytes  Size = 1 << 40
)

func (l Ledger) problems(d document) Problems {
	var ps Problems
	if (l.MaxAge != 0 || d.given("ledger.max_age")) && (l.MaxAge < leastLedgerAge || l.MaxAge > longestSpan) {
		ps = append(ps, d.problem("ledger.max_age", fmt.Sprintf("is %v: want %v to %v", l.MaxAge, leastLedgerAge, longestSpan)))
	}
	if (l.MaxBytes != 0 || d.given("ledger.max_bytes")) && (l.MaxBytes < leastLedgerBytes || l.MaxBytes > mostLedgerBytes) {
		ps = append(ps, d.problem("ledger.max_bytes", fmt.Sprintf("is %d bytes: want 64MiB to 1024GiB", l.MaxBytes)))
	}
	return ps
}
