package aws

import (
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	firstThrottle = 2 * time.Second  // first pause after a throttled write
	maxThrottle   = 20 * time.Second // it is doubled up to this
)

// pauses are how long no write is sent to a service of AWS that throttles. So the groups of a pool do not each find out by a request.
type pauses struct {
	mu sync.Mutex
	of map[string]pause // by service
}

type pause struct {
	until time.Time
	times int // throttled writes in a row
}

// check returns pools.ErrThrottled during a pause of the service.
func (p *pauses) check(service string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.of[service].until.Sub(now); left > 0 {
		return fmt.Errorf("%w: an earlier request to %s was throttled, and the next one is sent in %v", pools.ErrThrottled, service, left.Round(100*time.Millisecond))
	}
	return nil
}

// note records the result of a write. After a throttled one the service has a pause. Its length differs by pool, so that not all pools
// send their next request at once.
func (p *pauses) note(service, pool string, now time.Time, err error) {
	failed, rejected := errors.AsType[*callError](err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !rejected || failed.class != pools.ErrThrottled {
		delete(p.of, service)
		return
	}
	one := p.of[service]
	length := firstThrottle
	for range min(one.times, 10) {
		length = min(2*length, maxThrottle)
	}
	one.times++
	one.until = now.Add(length + time.Duration(luck(pool, service, one.times)*float64(length)/2))
	if p.of == nil {
		p.of = map[string]pause{}
	}
	p.of[service] = one
}

// luck returns a number in [0, 1) that is the same for the same names.
func luck(pool, service string, times int) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, pool, "/", service, "/", times)
	return float64(h.Sum64()%1000) / 1000
}
