package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

var _ pools.Addresser = (*Provider)(nil)

// Address implements pools.Addresser, of an instance that the last round found. What
// the rounds did not learn of any instance is asked for at once, of all of them.
func (p *Provider) Address(ctx context.Context, instance string) (pools.Address, error) {
	f, known := p.fact(instance)
	if known && f.address.IP == "" {
		if err := p.readAddresses(ctx); err != nil {
			return pools.Address{}, fmt.Errorf("address of instance %s: %w", instance, err)
		}
		f, known = p.fact(instance)
	}
	switch {
	case !known:
		return pools.Address{}, fmt.Errorf("address of instance %.40s: pool %s does not have it", instance, p.cfg.Pool)
	case f.address.IP == "":
		return pools.Address{}, fmt.Errorf("address of instance %s: EC2 has given it none yet", instance)
	}
	return f.address, nil
}

// readAddresses learns the addresses that are not known.
func (p *Provider) readAddresses(ctx context.Context) error {
	var without []string
	p.mu.Lock()
	for id, f := range p.known {
		if f.address.IP == "" {
			without = append(without, id)
		}
	}
	p.mu.Unlock()
	slices.Sort(without)
	found := make(map[string]pools.Address)
	for ids := range slices.Chunk(without, filterValues) {
		err := p.instances(ctx, func(i ec2types.Instance) { found[aws.ToString(i.InstanceId)] = factsOf(i).address }, filter("instance-id", ids...))
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, address := range found {
		if f, still := p.known[id]; still {
			f.address = address
			p.known[id] = f
		}
	}
	return nil
}
