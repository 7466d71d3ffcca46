// Package awsfake is a fake of AWS in one process, as far as the autoscaler needs it: EC2 with Spot
// Fleet, Auto Scaling, target groups, SQS and the metrics of CloudWatch. It uses the wire format of the AWS SDK, and has its
// own clock.
//
//	s := awsfake.New(address, awsfake.Config{}, missing) // an http.Handler; package awstest starts it for tests
//	s.AddGroup(awsfake.ASG{Name: "web", Min: 1, Max: 20, Desired: 5,
//		Zones: []string{"us-west-2a", "us-west-2b"}, Types: []awsfake.Type{{Name: "m5.large"}}})
//	client := autoscaling.New(autoscaling.Options{BaseEndpoint: new(s.URL()), Region: s.Region(), ...})
//	s.Advance(time.Minute) // what was ordered is in service
//
// It is a fake with behaviour. Instances, groups and fleets are state machines. Launches fail for
// lack of capacity or quota, with the texts of AWS. A lower target terminates the instances that
// AWS would choose. Responses lag, and requests are throttled and rejected. The state changes only
// by a request or by [Server.Advance]. Signatures are not verified. A request without credentials,
// for another region, or with an unsupported action or parameter is rejected.
//
// The test of this package checks all requests and responses against botocore's models of the
// services.
//
// A Server may be used concurrently.
package awsfake
