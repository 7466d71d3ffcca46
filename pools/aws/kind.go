package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// groupSelector is the value of the keys "asg" and "sfr" in a pool file. It finds groups by a tag or by a
// list in a bucket.
type groupSelector struct {
	Tag  string     `yaml:"tag"` // key of the tag; its value names the cluster and the pool
	S3   *fleetList `yaml:"s3"`  // only for Spot Fleet requests
	kind Kind
}

// fleetList is the S3 location of the list of Spot Fleet requests of all pools.
type fleetList struct {
	Bucket string `yaml:"bucket"`
	Prefix string `yaml:"prefix"`
}

const maxTagKey = 128 // bytes of a tag's key

// ProviderKind returns the description of the provider for the configuration and the daemons.
func ProviderKind() provider.Kind {
	modes := []api.DetectionType{
		api.DetectAgentHeartbeat, api.DetectNodeStatus, api.DetectPollURL, api.DetectLifecycleEvents, api.DetectHypervisorStatus, api.DetectLBStatus,
	}
	return provider.Kind{
		Name: "AWS",
		Selectors: []provider.Selector{
			{
				Key: string(AutoScaling), About: "Auto Scaling groups of AWS", New: func() provider.Group { return &groupSelector{kind: AutoScaling} },
				Can: judge.Abilities{
					Actions:    []api.RepairAction{api.ActionStart, api.ActionReboot, api.ActionRebuild, api.ActionRecreate, api.ActionWorkflow},
					Modes:      modes,
					Fencing:    []judge.Level{judge.FenceService, judge.FenceCompute, judge.FenceTraffic},
					OwnsRepair: true,
				},
				Isolated: []judge.Level{judge.FenceNetwork},
			},
			{
				Key: string(SpotFleet), About: "Spot Fleet requests of AWS", New: func() provider.Group { return &groupSelector{kind: SpotFleet} },
				Can: judge.Abilities{ // EC2 cannot stop a one-time Spot instance or replace its root volume
					Actions:    []api.RepairAction{api.ActionReboot, api.ActionRecreate, api.ActionWorkflow},
					Modes:      modes,
					Fencing:    []judge.Level{judge.FenceService, judge.FenceTraffic},
					OwnsRepair: true, // by the fleet's own checks; it has no health marks
				},
			},
		},
		Environment: "AWS_",
		Denied:      "compare the policy of this host's keys with deploy/aws/iam-policy.json",
		Unread:      "check the groups of the pool's file, aws.region of weir.yaml, and the network to the provider",
		Open: func(ctx context.Context, site provider.Site) (provider.Opened, error) {
			c, err := configOf(site)
			if err != nil {
				return provider.Opened{}, err
			}
			p, err := Open(ctx, c, site.Log)
			if err != nil {
				return provider.Opened{}, err
			}
			opened := provider.Opened{Provider: p, Console: p.Console, Rights: p.Rights}
			if c.Queue != "" {
				opened.ReceiveNotices = p.ReceiveNotices
			}
			return opened, nil
		},
	}
}

// Ignored returns the ignored keys of Clusterman's files, with the reason.
func (*groupSelector) Ignored() map[string]string {
	return map[string]string{"aws_api_cache_bucket": "is ignored: a tick reads its groups once"}
}

// Check implements provider.Group.
func (g *groupSelector) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	problem := func(key, what string) { ps = append(ps, &strictyaml.Problem{Key: key, What: what}) }
	if g.kind == AutoScaling && g.S3 != nil {
		problem("s3", "is only for sfr: Auto Scaling groups are found by tag")
	}
	switch {
	case g.S3 == nil && g.Tag == "":
		problem("tag", "is missing: want the key of the tag that names the pool, such as \"weir:pool\"")
	case g.S3 != nil && g.Tag != "":
		problem("tag", "is set together with s3: remove one of them")
	case g.S3 != nil && (g.S3.Bucket == "" || g.S3.Prefix == ""):
		problem("s3", "want bucket and prefix")
	case len(g.Tag) > maxTagKey:
		problem("tag", fmt.Sprintf("has %d bytes: a tag's key has at most %d", len(g.Tag), maxTagKey))
	}
	return ps
}

func (g *groupSelector) selector(isolation string) Selector {
	s := Selector{Kind: g.kind, Tag: g.Tag, Isolation: isolation}
	if g.S3 != nil {
		s.Tag, s.S3Bucket, s.S3Prefix = "", g.S3.Bucket, g.S3.Prefix
	}
	return s
}

// configOf returns the configuration of a pool's provider, with the claims of the other pools.
func configOf(site provider.Site) (Config, error) {
	if _, _, err := site.Account.Keys(); err != nil {
		return Config{}, err
	}
	c := Config{
		Cluster: site.Cluster, Pool: site.Pool, Region: site.Account.Region, Endpoints: site.Account.Endpoint,
		Keys: site.Account.Keys, Queue: site.Account.Events, Now: site.Now,
	}
	for _, g := range site.Groups {
		if groups, ok := g.(*groupSelector); ok {
			c.Groups = append(c.Groups, groups.selector(site.Isolation))
		}
	}
	others := site.Others()
	for _, pool := range slices.Sorted(maps.Keys(others)) {
		for _, g := range others[pool] {
			if groups, ok := g.(*groupSelector); ok && groups.Tag != "" {
				c.Others = append(c.Others, Claim{Pool: pool, Kind: groups.kind, Tag: groups.Tag})
			}
		}
	}
	return c, nil
}
