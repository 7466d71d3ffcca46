// Package aws is the provider of machines at Amazon: the Auto Scaling groups and
// Spot Fleet requests of one pool, found by tag or by Clusterman's list in S3, by
// aws-sdk-go-v2.
//
//	p, err := aws.Open(ctx, aws.Config{Cluster: "everywhere-prod", Pool: "default", Region: "us-west-2",
//		Groups: []aws.Selector{{Kind: aws.AutoScaling, Tag: "weir:pool"}}}, log)
//	groups, err := p.Groups(ctx)                    // once a tick: one round of requests
//	err = p.Hear(ctx, warnings, hints)              // beside it: what EC2 warns of, and what has changed
//	seen, err := p.Inspect(ctx, pools.Inspecting{}) // how the instances of the last round are
//
// A tag's value is JSON with "pool" and "paasta_cluster" (or "cluster"), or the
// text CLUSTER/POOL.
//
// A round of reading is one paged sequence of each listing, whatever the number
// of groups; only instance refreshes are asked for by group, at most every 30
// seconds and before each write while none is known, and what went wrong only of
// groups that have less than they ask for. Instances are described once,
// when they are first seen. A group's Snapshot is what the last round said, with
// what was written since by the same Provider.
//
// Amazon chooses nobody: targets are raised, and lowered by ending chosen
// instances by id. A bare lower target goes no lower than what exists, unless all
// of that is protected from scale-in; so a group whose new instances are protected
// is the one that works best, and such protection, which every instance has, is
// not taken for an operator's word about one of them.
//
// Groups repair their instances in place (pools.Mender) and fence them
// (pools.Isolator). What was begun is kept where it is done, in a tag of the instance
// or of the task, so that another process, asked for the same attempt, goes on and
// begins nothing twice. Exactly one may heal: Heals says whether Amazon does.
//
// Requests stay below Amazon's own budgets and are tried again by the SDK's
// adaptive retries, within the context. Errors name the action and the resource,
// and are pools.ErrRefused, ErrShort or ErrThrottled where Amazon says so.
//
// A Provider and its groups may be used concurrently.
package aws
