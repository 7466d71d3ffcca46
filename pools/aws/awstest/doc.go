// Package awstest is Amazon in one process, as far as the autoscaler relies on
// it: EC2 with spot fleets, Auto Scaling, target groups and SQS, over the very
// bytes that the AWS SDK speaks, with a clock of its own.
//
//	s := awstest.New(t, awstest.Config{})
//	s.AddGroup(awstest.ASG{Name: "web", Min: 1, Max: 20, Desired: 5,
//		Zones: []string{"us-west-2a", "us-west-2b"}, Types: []awstest.Type{{Name: "m5.large"}}})
//	client := autoscaling.New(autoscaling.Options{BaseEndpoint: new(s.URL()), Region: s.Region(), ...})
//	s.Advance(time.Minute) // what was ordered is in service
//
// It is a fake with behaviour: instances, groups and fleets are state machines,
// orders fail for want of capacity or quota in the words that AWS uses, bare
// lowering kills whom AWS would kill, answers lag behind, requests are
// throttled and refused. Nothing moves but by a request or by [Server.Advance].
// Signatures are not verified; a request without credentials, of another
// region, or with an action or a parameter that is not built here is refused.
//
// What it reads and writes is checked against botocore's models of the services
// by the test of this package.
//
// A Server may be used by any number of goroutines.
package awstest
