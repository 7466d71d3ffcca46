package authd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

const (
	instancesAge   = time.Minute      // how long a found instance counts as existing
	instancesPause = 2 * time.Second  // between two readings
	readTimeout    = 30 * time.Second // of one reading of all pools
)

// instances finds machines at the providers of the cluster's pools. Run reads them when a machine is unknown, at most
// every two seconds.
type instances struct {
	read   func(ctx context.Context) (map[string]machine, error)
	wanted chan struct{} // has a value if a reading is wanted

	mu    sync.Mutex
	known map[string]machine
	at    time.Time     // of the last reading
	err   error         // of the last reading: some pools are unknown
	next  chan struct{} // closed by the next reading
}

// machine is an instance of a pool.
type machine struct {
	pool     string
	launched time.Time
}

func newInstances(read func(context.Context) (map[string]machine, error)) *instances {
	return &instances{read: read, wanted: make(chan struct{}, 1), next: make(chan struct{})}
}

// Run reads the providers on demand until ctx ends.
func (i *instances) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-i.wanted:
		}
		i.refresh(ctx)
		if !retry.Pause(ctx, instancesPause) {
			return nil
		}
	}
}

func (i *instances) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	known, err := i.read(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.at, i.err = known, time.Now(), err
	close(i.next)
	i.next = make(chan struct{})
}

// Known implements identity.Instances.
func (i *instances) Known(ctx context.Context, instance string) (pool string, launched time.Time, err error) {
	i.mu.Lock()
	m, ok := i.known[instance]
	fresh, next := time.Since(i.at) < instancesAge, i.next
	i.mu.Unlock()
	if ok && fresh {
		return m.pool, m.launched, nil
	}
	select {
	case i.wanted <- struct{}{}:
	default:
	}
	select {
	case <-ctx.Done():
		return "", time.Time{}, fmt.Errorf("read the pools of the cluster: %w", ctx.Err())
	case <-next:
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if m, ok := i.known[instance]; ok {
		return m.pool, m.launched, nil
	}
	if i.err != nil {
		return "", time.Time{}, i.err
	}
	return "", time.Time{}, identity.ErrUnknownInstance
}

// pools reads the machines of all pools of a cluster from their providers.
type pools struct {
	configs string // folder of the files
	cluster string
	bus     *bus.Bus
	log     *slog.Logger
}

// machines returns the machines by instance. If some pools are unknown, it returns the others and an error.
func (p pools) machines(ctx context.Context) (map[string]machine, error) {
	all, err := config.Pools(p.configs, p.cluster)
	if err != nil {
		return nil, fmt.Errorf("read the pools of cluster %s: %w", p.cluster, err)
	}
	found := map[string]machine{}
	var errs []error
	for _, name := range all {
		if err := p.addMachines(ctx, name, found); err != nil {
			errs = append(errs, fmt.Errorf("read the machines of pool %s: %w", name, err))
		}
	}
	return found, errors.Join(errs...)
}

// addMachines adds the machines of one pool.
func (p pools) addMachines(ctx context.Context, name string, found map[string]machine) error {
	service, pool, err := config.Load(p.configs, p.cluster, name)
	if err != nil {
		return err
	}
	kind, ok := pool.Provider()
	if !ok {
		return nil
	}
	opened, err := kind.Open(ctx, provider.Site{
		Cluster: p.cluster, Pool: name, Groups: pool.Selected(), Conn: p.bus.Conn(), Log: p.log,
		Others: func() map[string][]provider.Group {
			claims, _ := config.Claims(p.configs, p.cluster, name) // machines reports the error of each pool
			return claims
		},
		Account: provider.Account{Region: service.RegionOf(p.cluster), Endpoint: service.AWS.Endpoint, Keys: awssdk.KeysOf(service.AWS.AccessKeyFile)},
	})
	if err != nil {
		return err
	}
	listing, err := opened.Groups(ctx)
	errs := []error{err, listing.Missing.Err()}
	for _, g := range listing.Groups {
		snapshot, err := g.Snapshot(ctx)
		errs = append(errs, err)
		for _, i := range snapshot.Instances {
			found[i.ID] = machine{pool: name, launched: i.Launched}
		}
	}
	return errors.Join(errs...)
}
