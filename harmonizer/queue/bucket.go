package queue

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// bucket is a token bucket. It gets batch tokens in every period, and holds at most batch.
type bucket struct {
	config Config
	share  float64
	tokens float64
	filled time.Time // time of the last fill; zero: never
}

func newBucket(c Config) bucket {
	return bucket{config: c, share: 1, tokens: float64(c.Batch)}
}

// fill adds the tokens since the last fill. If the clock goes back, it adds none.
func (b *bucket) fill(now time.Time) {
	if since := now.Sub(b.filled); !b.filled.IsZero() && since > 0 {
		b.tokens += float64(since) / float64(b.config.Every) * float64(b.config.Batch) * b.share
	}
	b.filled = now
	b.tokens = min(b.tokens, b.burst())
}

func (b *bucket) takeToken() bool {
	if b.tokens < 1-resource.Slack {
		return false
	}
	b.tokens = max(b.tokens-1, 0)
	return true
}

func (b *bucket) refund() { b.tokens = min(b.tokens+1, b.burst()) }

func (b *bucket) scale(share float64) { b.share = min(max(share, 0), 1) }

func (b *bucket) burst() float64 { return max(float64(b.config.Batch)*b.share, 1) }
