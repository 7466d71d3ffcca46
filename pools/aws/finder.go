package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	maxNames   = 5  // maximum in an error
	groupsPage = 50 // groups of one response, with all their instances
)

// listing has the pool's groups as AWS describes them, by name or id, and why parts of them are unknown.
type listing struct {
	asgs   map[string]astypes.AutoScalingGroup
	fleets map[string]ec2types.SpotFleetRequestConfig
	// isolation is the isolation security group of each group, by name or id.
	isolation map[string]string
	unread    map[string]error // groups that could not be read
	missing   pools.Missing    // why groups of a kind may be missing
	notes     []pools.Note
}

// addUnread records that a group could not be read.
func (l *listing) addUnread(id string, err error) {
	delete(l.asgs, id)
	delete(l.fleets, id)
	l.unread[id] = err
}

// addMissing records that groups of a kind may be missing.
func (l *listing) addMissing(kind Kind, err error) {
	l.missing[string(kind)] = errors.Join(l.missing[string(kind)], err)
}

// addNote records that a fact beside the groups could not be read.
func (l *listing) addNote(part string, err error) {
	if err != nil {
		l.notes = append(l.notes, pools.Note{Part: part, Err: err})
	}
}

// has reports whether the group was found, also if it could not be read.
func (l *listing) has(id string) bool {
	_, asg := l.asgs[id]
	_, fleet := l.fleets[id]
	return asg || fleet || l.unread[id] != nil
}

// finder finds the pool's groups with the configured selectors.
type finder struct {
	cfg Config
	aws *clients

	mu sync.Mutex
	// last has the pool of each fleet in the lists in S3, as each list was last read.
	last map[Selector]map[string]string
}

// find returns the groups of the pool. A selector without a group is a note, errNothingFound. A group that another pool claims
// too cannot be read: errTwoPools.
func (f *finder) find(ctx context.Context) *listing {
	l := &listing{isolation: map[string]string{}, unread: map[string]error{}, missing: pools.Missing{}}
	if f.has(AutoScaling) {
		f.findScaling(ctx, l)
	}
	if f.has(SpotFleet) {
		f.findFleets(ctx, l)
	}
	for name := range l.asgs {
		if _, both := l.fleets[name]; both {
			l.addUnread(name, fmt.Errorf("%s is the name of an Auto Scaling group and of a Spot Fleet request", name))
		}
	}
	return l
}

func (f *finder) findScaling(ctx context.Context, l *listing) {
	ctx, cancel := part(ctx)
	defer cancel()
	all, err := f.aws.groupsBy(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters:    []astypes.Filter{{Name: aws.String("tag-key"), Values: f.tagKeys(AutoScaling)}},
		MaxRecords: aws.Int32(groupsPage),
	}, "groups by tag")
	if err != nil {
		l.addMissing(AutoScaling, err)
		return
	}
	tags := make(map[string]map[string]string)
	for name, g := range all {
		tags[name] = groupTags(g)
	}
	ours := f.choose(l, AutoScaling, tags, nil)
	maps.DeleteFunc(all, func(name string, _ astypes.AutoScalingGroup) bool { return !slices.Contains(ours, name) })
	l.asgs = all
}

func (f *finder) findFleets(ctx context.Context, l *listing) {
	lists := f.lists(ctx, l)
	ctx, cancel := part(ctx)
	defer cancel()
	all, err := f.aws.describeFleets(ctx, nil)
	if err != nil {
		l.addMissing(SpotFleet, err)
		return
	}
	tags := make(map[string]map[string]string)
	for id, f := range all {
		if !ended(f.SpotFleetRequestState) {
			tags[id] = fleetTags(f)
		}
	}
	ours := f.choose(l, SpotFleet, tags, lists)
	maps.DeleteFunc(all, func(id string, _ ec2types.SpotFleetRequestConfig) bool { return !slices.Contains(ours, id) })
	l.fleets = all
}

func (f *finder) has(kind Kind) bool {
	return slices.ContainsFunc(f.cfg.Groups, func(s Selector) bool { return s.Kind == kind })
}

// tagKeys returns the keys of the tags with the owner of a group of that kind, for this pool and
// other pools.
func (f *finder) tagKeys(kind Kind) []string {
	var keys []string
	for _, s := range f.cfg.Groups {
		if s.Kind == kind && s.Tag != "" {
			keys = append(keys, s.Tag)
		}
	}
	for _, c := range f.cfg.Others {
		if c.Kind == kind && c.Tag != "" {
			keys = append(keys, c.Tag)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// choose returns the groups that belong to the pool alone, and adds the isolation of each to l. tags has the tags of each group.
// lists has, for each selector whose list was read, the pool of each listed group.
func (f *finder) choose(l *listing, kind Kind, tags map[string]map[string]string, lists map[Selector]map[string]string) []string {
	us := owner{f.cfg.Cluster, f.cfg.Pool}
	var ours []string
	for _, s := range f.cfg.Groups {
		if _, read := lists[s]; s.Kind != kind || s.S3Bucket != "" && !read {
			continue
		}
		whose := make(map[string]owner)
		for id, t := range tags {
			if pool, listed := lists[s][id]; listed {
				whose[id] = owner{us.cluster, pool}
			} else if o, ok := parseOwner(t[s.Tag]); ok && s.Tag != "" {
				whose[id] = o
			}
		}
		found := slices.DeleteFunc(slices.Sorted(maps.Keys(whose)), func(id string) bool { return whose[id] != us })
		if len(found) == 0 {
			l.addNote("groups by "+s.String(), fmt.Errorf("%s of pool %s by %s: %w; %s", kind.noun(), us, s, errNothingFound, reported(whose)))
		}
		ours = append(ours, found...)
		for _, id := range found {
			l.isolation[id] = cmp.Or(l.isolation[id], s.Isolation)
		}
	}
	slices.Sort(ours)
	return slices.DeleteFunc(slices.Compact(ours), func(id string) bool {
		err := f.disputed(kind, id, tags[id])
		if err != nil {
			l.addUnread(id, err)
		}
		return err != nil
	})
}

// reported returns the owners of the groups that a selector finds, for people.
func reported(whose map[string]owner) string {
	var names []string
	for id, o := range whose {
		names = append(names, fmt.Sprintf("%s is of %s", id, o))
	}
	if len(names) == 0 {
		return "it finds no group"
	}
	slices.Sort(names)
	more := ""
	if len(names) > maxNames {
		names, more = names[:maxNames], fmt.Sprintf(" and %d more", len(whose)-maxNames)
	}
	return "found: " + strings.Join(names, ", ") + more
}

// disputed returns an error if another tag or list assigns the group to another pool. A list that cannot be read assigns what it did.
func (f *finder) disputed(kind Kind, id string, tags map[string]string) error {
	us := owner{f.cfg.Cluster, f.cfg.Pool}
	for _, key := range f.tagKeys(kind) {
		if o, ok := parseOwner(tags[key]); ok && o != us {
			return fmt.Errorf("%s %s: %w: %s, and %s by the tag %q", kind.noun(), id, errTwoPools, us, o, key)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for s, list := range f.last {
		if pool, listed := list[id]; listed && pool != us.pool {
			return fmt.Errorf("%s %s: %w: %s, and %s by %s", kind.noun(), id, errTwoPools, us, pool, s)
		}
	}
	return nil
}

func (c *clients) groupsBy(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput, resource string) (map[string]astypes.AutoScalingGroup, error) {
	found := make(map[string]astypes.AutoScalingGroup)
	err := c.pages(ctx, "autoscaling:DescribeAutoScalingGroups", resource, func(token *string) (*string, error) {
		in.NextToken = token
		out, err := c.autoscaling.DescribeAutoScalingGroups(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, g := range out.AutoScalingGroups {
			found[aws.ToString(g.AutoScalingGroupName)] = g
		}
		return out.NextToken, nil
	})
	delete(found, "")
	return found, err
}

// describeFleets returns Spot Fleet requests by id. Without ids it returns all requests.
func (c *clients) describeFleets(ctx context.Context, ids []string) (map[string]ec2types.SpotFleetRequestConfig, error) {
	found := make(map[string]ec2types.SpotFleetRequestConfig)
	resource := "all requests"
	if len(ids) > 0 {
		resource = strings.Join(ids, ", ")
	}
	err := c.pages(ctx, "ec2:DescribeSpotFleetRequests", resource, func(token *string) (*string, error) {
		out, err := c.ec2.DescribeSpotFleetRequests(ctx, &ec2.DescribeSpotFleetRequestsInput{SpotFleetRequestIds: ids, NextToken: token})
		if err != nil {
			return nil, err
		}
		for _, f := range out.SpotFleetRequestConfigs {
			found[aws.ToString(f.SpotFleetRequestId)] = f
		}
		return out.NextToken, nil
	})
	delete(found, "")
	return found, err
}

func groupTags(g astypes.AutoScalingGroup) map[string]string {
	tags := make(map[string]string)
	for _, t := range g.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}

// fleetTags returns the tags of a request: its own, and the instance tags of its first launch
// specification, as Clusterman does.
func fleetTags(f ec2types.SpotFleetRequestConfig) map[string]string {
	tags := make(map[string]string)
	if c := f.SpotFleetRequestConfig; c != nil && len(c.LaunchSpecifications) > 0 {
		for _, spec := range c.LaunchSpecifications[0].TagSpecifications {
			for _, t := range spec.Tags {
				tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			}
		}
	}
	for _, t := range f.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}
