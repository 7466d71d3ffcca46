// Package aws is the provider for AWS: the Auto Scaling groups and Spot Fleet requests of one pool.
// It finds them by tag or by Clusterman's list in S3, and uses aws-sdk-go-v2.
//
//	p, err := aws.Open(ctx, aws.Config{Cluster: "everywhere-prod", Pool: "default", Region: "us-west-2",
//		Groups: []aws.Selector{{Kind: aws.AutoScaling, Tag: "weir:pool"}}}, log)
//	groups, err := p.Groups(ctx)                    // once a tick: reads all groups
//	err = p.ReceiveNotices(ctx, warnings, hints)    // in parallel: warnings and changes
//	seen, err := p.Inspect(ctx, pools.Inspecting{}) // health of the instances
//
// A tag's value is JSON with "pool" and "paasta_cluster" (or "cluster"), or the text CLUSTER/POOL.
//
// Groups reads each list once, page by page, for any number of groups. Two kinds of requests are
// made for each group: instance refreshes (at most every 30 seconds, and before each write while
// none is known), and the cause of missing capacity. Each instance is described once, when it first
// appears. A group's Snapshot returns the latest read, overlaid with later writes of the same
// Provider.
//
// AWS must not choose instances to terminate. A write raises the target, or lowers it by
// terminating instances by id. SetTarget lowers the target only to the existing weight, unless all
// instances are protected from scale-in. A group that protects new instances works best. Protection
// that every instance has is not an operator's mark on one of them.
//
// Groups repair their instances in place (pools.Repairer) and fence them (pools.Isolator). Each
// attempt is recorded in a tag of the instance or of the task. Another process that continues the
// same attempt begins nothing twice. A pool has one repair owner: OwnsRepair reports whether it is AWS.
//
// Requests stay below the limits of AWS, and the SDK's adaptive retries repeat them within the
// context. Errors name the action and the resource. They wrap pools.ErrRefused, ErrShort or
// ErrThrottled if AWS reports such a cause.
//
// A Provider and its groups may be used concurrently.
package aws
