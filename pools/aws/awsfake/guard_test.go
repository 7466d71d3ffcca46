package awsfake_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

func (w *world) describe(t *testing.T) error {
	_, err := w.groups.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	return err
}

func TestThrottle(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.Throttle("DescribeAutoScalingGroups", 1)
	_, err := w.compute.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	answered(t, err, "")
	answered(t, w.describe(t), "Throttling")
	answered(t, w.describe(t), "")
	w.Limit("DescribeAutoScalingGroups", awsfake.Bucket{Size: 2, Refill: 0.5})
	for _, want := range []string{"", "", "Throttling"} {
		answered(t, w.describe(t), want)
	}
	w.Advance(2 * time.Second)
	for _, want := range []string{"", "Throttling"} {
		answered(t, w.describe(t), want)
	}
}

func TestDeny(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	w.AddGroup(awsfake.ASG{Name: "batch", Max: 9})
	const user = "User: arn:aws:iam::123456789012:user/weir is not authorized to perform: "
	for _, test := range []struct {
		name, action, resource string
		do                     func() error
		code, want             string
	}{
		{"by group", "SetDesiredCapacity", "web", func() error { return w.desire(t, "web", 3) }, "AccessDenied", user + "autoscaling:SetDesiredCapacity on resource: arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:"},
		{"another group", "SetDesiredCapacity", "batch", func() error { return w.desire(t, "web", 2) }, "", ""},
		{"group of the instance", "TerminateInstanceInAutoScalingGroup", "web", func() error { return w.terminate(t, w.Instances("web")[0].ID, true) }, "AccessDenied", "autoScalingGroupName/web because no identity-based policy allows"},
		{"describe", "DescribeInstances", "", func() error {
			_, err := w.compute.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
			return err
		}, "UnauthorizedOperation", "You are not authorized to perform this operation. " + user + "ec2:DescribeInstances because"},
		{"fleet", "ModifySpotFleetRequest", "sfr-1", func() error { return w.modify(t, "sfr-1", 1, "") }, "UnauthorizedOperation", "on resource: arn:aws:ec2:us-west-2:123456789012:spot-fleet-request/sfr-1 because"},
		{"queue", "", "weir-notices", func() error {
			_, err := w.queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: new(w.QueueURL())})
			return err
		}, "AccessDenied", "sqs:ReceiveMessage on resource: arn:aws:sqs:us-west-2:123456789012:weir-notices because"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.Deny(test.action, test.resource)
			err := test.do()
			answered(t, err, test.code)
			if test.want != "" && !strings.Contains(message(err), test.want) {
				t.Errorf("message %q, want %q", message(err), test.want)
			}
			w.Allow()
		})
	}
	if w.Target("web") != 2 || len(w.Endings()) != 0 {
		t.Error("what was refused was done")
	}
}

func TestLostResponse(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	w.Drop("SetDesiredCapacity", 1)
	if err := w.desire(t, "web", 3); err == nil {
		t.Error("there was an answer")
	}
	if w.Target("web") != 3 {
		t.Error("the request was not carried out")
	}
}

func TestLag(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2})
	desired := func(want int32) {
		t.Helper()
		if got := *w.group(t, "web").DesiredCapacity; got != want {
			t.Errorf("desired %d, want %d", got, want)
		}
	}
	w.Lag(2)
	answered(t, w.desire(t, "web", 4), "")
	desired(2)
	desired(2)
	desired(4)
	w.Lag(0)
	w.LagFor(3 * time.Second)
	answered(t, w.desire(t, "web", 6), "")
	w.Advance(2 * time.Second)
	desired(4)
	w.Advance(time.Second)
	desired(6)
}

func TestCalls(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 3, Desired: 2})
	answered(t, w.describe(t), "")
	w.Advance(time.Minute)
	answered(t, w.desire(t, "web", 4), "ValidationError")
	calls := w.Calls()
	if len(calls) != 2 || calls[0].Write || calls[0].Action != "DescribeAutoScalingGroups" {
		t.Fatalf("calls %+v", calls)
	}
	got := calls[1]
	if !got.Write || got.Service != "autoscaling" || got.Err != "ValidationError" || got.Params["DesiredCapacity"] != "4" || !got.At.Equal(w.Now()) {
		t.Errorf("call %+v", got)
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	signed := func(region, service string) string {
		return "AWS4-HMAC-SHA256 Credential=AKID/20240102/" + region + "/" + service + "/aws4_request, SignedHeaders=host, Signature=00"
	}
	ours := signed("us-west-2", "ec2")
	for _, test := range []struct {
		name, auth, body string
		status           int
		want             string
	}{
		{"no credentials", "", "Action=DescribeInstances&Version=2016-11-15", 403, "MissingAuthenticationToken"},
		{"another region", signed("eu-west-1", "ec2"), "Action=DescribeInstances&Version=2016-11-15", 403, "valid region"},
		{"another service", signed("us-west-2", "s3"), "Action=DescribeInstances&Version=2016-11-15", 403, "correct service: &#39;ec2&#39;"},
		{"action", ours, "Action=RunInstances&Version=2016-11-15", 400, "InvalidAction"},
		{"version", ours, "Action=DescribeInstances&Version=2012-01-01", 400, "InvalidAction"},
		{"parameter", ours, "Action=DescribeInstances&Version=2016-11-15&Hibernate=true", 400, "UnknownParameter"},
		{"number", ours, "Action=DescribeInstances&Version=2016-11-15&MaxResults=four", 400, "InvalidParameterValue"},
		{"token", ours, "Action=DescribeInstances&Version=2016-11-15&NextToken=xx", 400, "InvalidNextToken"},
		{"filter", ours, "Action=DescribeSpotFleetRequestHistory&Version=2016-11-15&SpotFleetRequestId=x", 400, "InvalidSpotFleetRequestId.NotFound"},
		{"form", ours, "Action=%zz", 400, "InvalidAction"},
		{"too large", ours, strings.Repeat("x", 2<<20), 400, "MalformedQueryString"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL(), strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", test.auth)
			answer, err := w.seen.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.seen.exchange[len(w.seen.exchange)-1].Answer; answer.StatusCode != test.status || !strings.Contains(got, test.want) {
				t.Errorf("answer %d, %s; want %d, %s", answer.StatusCode, got, test.status, test.want)
			}
		})
	}
}
