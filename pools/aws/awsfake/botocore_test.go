package awsfake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watched "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	compute "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	queue "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// TestBotocore sends every operation with Amazon's own Go clients. botocore then checks the
// requests and responses.
func TestBotocore(t *testing.T) {
	folder := botocore(t)
	w := newWorld(t, awsfake.Config{})
	everything(t, w)
	if diff := cmp.Diff(awsfake.Operations(), w.seen.operations()); diff != "" {
		t.Fatalf("operations of the server (-) and those that were driven (+):\n%s", diff)
	}
	in, err := json.Marshal(w.seen.exchange)
	if err != nil {
		t.Fatal(err)
	}
	out, err := check(t.Context(), folder, in)
	if err != nil {
		t.Fatal(err)
	}
	if out != "" {
		t.Errorf("botocore's models disagree:\n%s", out)
	}
	t.Logf("%d requests and answers agree with botocore's models", len(w.seen.exchange))
}

// TestBotocoreFindsMistakes shows that the check finds a mistake.
func TestBotocoreFindsMistakes(t *testing.T) {
	folder := botocore(t)
	const ok = `<SetDesiredCapacityResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></SetDesiredCapacityResponse>`
	instances := func(inner string) exchange {
		return exchange{"ec2", "DescribeInstances", 200, "", "Action=DescribeInstances&Version=2016-11-15",
			`<DescribeInstancesResponse><requestId>r</requestId>` + inner + `</DescribeInstancesResponse>`}
	}
	for _, test := range []struct {
		name, want string
		exchange   exchange
	}{
		{"nothing wrong", "", exchange{"autoscaling", "SetDesiredCapacity", 200, "", "Action=SetDesiredCapacity&Version=2011-01-01&AutoScalingGroupName=g&DesiredCapacity=3", ok}},
		{"parameter", "the model has no Desired", exchange{"autoscaling", "SetDesiredCapacity", 200, "", "Action=SetDesiredCapacity&Version=2011-01-01&AutoScalingGroupName=g&DesiredCapacity=3&Desired=1", ok}},
		{"element", "the model has no DescribeInstances.reservations", instances("<reservations/>")},
		{"item", "holds a member", instances("<reservationSet><member/></reservationSet>")},
		{"enum", "not one of", instances("<reservationSet><item><instancesSet><item><instanceState><code>16</code><name>up</name></instanceState></item></instancesSet></item></reservationSet>")},
		{"json", "the model has no Url", exchange{"sqs", "GetQueueUrl", 200, "AmazonSQS.GetQueueUrl", `{"QueueName":"q"}`, `{"Url":"u"}`}},
		{"json type", "not a integer", exchange{"sqs", "ReceiveMessage", 200, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":"1"}`, `{}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, err := json.Marshal([]exchange{test.exchange})
			if err != nil {
				t.Fatal(err)
			}
			out, err := check(t.Context(), folder, in)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && out != "" || !strings.Contains(out, test.want) {
				t.Errorf("check printed %q, want %q", out, test.want)
			}
		})
	}
}

func check(ctx context.Context, folder string, in []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	var out, complaints bytes.Buffer
	c := exec.CommandContext(ctx, testprograms.Python, filepath.Join("testdata", "check.py"))
	c.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &complaints
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("check against botocore: %w\n%s", err, complaints.String())
	}
	return out.String(), nil
}

func botocore(t *testing.T) (folder string) {
	t.Helper()
	folder, err := testprograms.Botocore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// everything sends every supported request, with all parameters and many kinds of responses. With
// an expected code, the request must fail with it.
func everything(t *testing.T, w *world) {
	t.Helper()
	w.AddGroup(awsfake.ASG{Name: "plain", Tags: map[string]string{"pool": "web"}, Max: 9, Desired: 2})
	w.AddGroup(awsfake.ASG{Name: "mixed", Max: 40, Desired: 8, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}, {Name: "m5.xlarge", Weight: 4}}, ProtectNew: true})
	w.AddTargetGroup("front")
	w.AddTargetGroup("back")
	w.AddGroup(awsfake.ASG{Name: "sick", Max: 9, Desired: 3, TargetGroups: []string{"front"}})
	w.AddGroup(awsfake.ASG{Name: "spot", Tags: map[string]string{"pool": "batch"}, Max: 9, Desired: 3, Spot: true})
	fleet := w.AddFleet(awsfake.SpotFleet{Tags: map[string]string{"pool": "web"}, Target: 4, TargetGroups: []string{"back"}, Specs: []awsfake.LaunchSpec{
		{Type: "m5.large", Zone: "us-west-2a", Weight: 1.5, Tags: map[string]string{"pool": "web"}}, {Type: "c5.large", Zone: "us-west-2b"},
	}})
	none := w.AddFleet(awsfake.SpotFleet{Target: 1, Cold: true, Template: true, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a", Weight: 2}}})
	w.Suspend("mixed", "AZRebalance")
	w.Tag(w.Instances("plain")[0].ID, "is_cordoned", "true")
	spot := w.Instances("spot")
	w.Rebalance(spot[0].ID)
	w.Interrupt(spot[0].ID)
	w.SetStock(awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}, 0)
	w.StartRefresh("plain")
	describe := func() {
		requestGroups(t, w)
		requestCompute(t, w, fleet, none)
	}
	describe()
	requestPrices(t, w)
	requestMetrics(t, w)
	requestQueue(t, w)
	change(t, w, fleet)
	describe()
	w.pass()
	describe()
	w.CancelFleet(fleet, true)
	describe()
	repair(t, w)
	refused(t, w, fleet)
}

func requestGroups(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	_, err := w.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters:    []scaling.Filter{{Name: new("tag:pool"), Values: []string{"web", "batch"}}, {Name: new("tag-key"), Values: []string{"pool"}}},
		MaxRecords: new(int32(1)), IncludeInstances: new(true),
	})
	answered(t, err, "")
	_, err = w.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"plain", "mixed", "spot"}})
	answered(t, err, "")
	out, err := w.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		Filters: []scaling.Filter{{Name: new("StartTimeLowerBound"), Values: []string{"2024-01-01T00:00:00Z"}}}, IncludeDeletedGroups: new(false),
	})
	answered(t, err, "")
	_, err = w.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: new("plain"), ActivityIds: []string{*out.Activities[0].ActivityId}, MaxRecords: new(int32(5)),
	})
	answered(t, err, "")
	_, err = w.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: new("plain"), MaxRecords: new(int32(2))})
	answered(t, err, "")
	_, err = w.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: new("mixed"), InstanceRefreshIds: []string{"x"}})
	answered(t, err, "")
}

func requestCompute(t *testing.T, w *world, fleets ...string) {
	t.Helper()
	ctx := t.Context()
	_, err := w.compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	answered(t, err, "")
	_, err = w.compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		MaxResults: new(int32(5)),
		Filters:    []compute.Filter{{Name: new("instance-state-name"), Values: []string{"pending", "running"}}, {Name: new("tag:pool"), Values: []string{"w*"}}},
	})
	answered(t, err, "")
	_, err = w.compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{w.Instances("")[0].ID}})
	answered(t, err, "")
	_, err = w.compute.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
		MaxResults: new(int32(5)), Filters: []compute.Filter{{Name: new("instance-type"), Values: []string{"m5.large", "m5.xlarge"}}},
	})
	answered(t, err, "")
	tags, err := w.compute.DescribeTags(ctx, &ec2.DescribeTagsInput{
		Filters:    []compute.Filter{{Name: new("resource-type"), Values: []string{"instance"}}, {Name: new("key"), Values: []string{"is_cordoned"}}},
		MaxResults: new(int32(5)),
	})
	if answered(t, err, ""); len(tags.Tags) != 1 {
		t.Fatalf("tags %v, want one", tags.Tags)
	}
	_, err = w.compute.DescribeSpotFleetRequests(ctx, &ec2.DescribeSpotFleetRequestsInput{MaxResults: new(int32(1))})
	answered(t, err, "")
	_, err = w.compute.DescribeSpotFleetRequests(ctx, &ec2.DescribeSpotFleetRequestsInput{SpotFleetRequestIds: fleets})
	answered(t, err, "")
	for _, id := range fleets {
		_, err = w.compute.DescribeSpotFleetInstances(ctx, &ec2.DescribeSpotFleetInstancesInput{SpotFleetRequestId: &id, MaxResults: new(int32(2))})
		answered(t, err, "")
		_, err = w.compute.DescribeSpotFleetRequestHistory(ctx, &ec2.DescribeSpotFleetRequestHistoryInput{
			SpotFleetRequestId: &id, StartTime: new(w.Now().Add(-time.Hour)), EventType: compute.EventTypeInstanceChange,
		})
		answered(t, err, "")
		_, err = w.compute.DescribeSpotFleetRequestHistory(ctx, &ec2.DescribeSpotFleetRequestHistoryInput{SpotFleetRequestId: &id, StartTime: new(w.Now().Add(-time.Hour))})
		answered(t, err, "")
	}
}

func requestPrices(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	_, err := w.compute.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []compute.InstanceType{"m5.large"}, ProductDescriptions: []string{"Linux/UNIX"}, StartTime: new(w.Now().Add(-time.Hour)), EndTime: new(w.Now()),
	})
	answered(t, err, "")
	_, err = w.prices.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: new("AmazonEC2"), Filters: []pricingtypes.Filter{
		{Type: pricingtypes.FilterTypeTermMatch, Field: new("instanceType"), Value: new("m5.large")},
	}})
	answered(t, err, "")
	_, err = w.prices.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: new("AmazonS4")})
	answered(t, err, "InvalidParameterException")
}

func requestMetrics(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	dimensions := []watched.Dimension{{Name: new("QueueName"), Value: new("orders")}}
	_, err := w.metrics.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: new("Shop"), MetricData: []watched.MetricDatum{
		{MetricName: new("Backlog"), Dimensions: dimensions, Timestamp: new(w.Now().Add(-2 * time.Minute)), Value: new(3.0), Unit: watched.StandardUnitCount},
		{MetricName: new("Backlog"), Dimensions: dimensions, Timestamp: new(w.Now().Add(-time.Minute)), Value: new(4.0), StorageResolution: new(int32(1))},
	}})
	answered(t, err, "")
	_, err = w.metrics.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: new("Shop"), MetricData: []watched.MetricDatum{{MetricName: new("Backlog")}}})
	answered(t, err, "MissingRequiredParameterException")
	get := &cloudwatch.GetMetricDataInput{
		StartTime: new(w.Now().Add(-time.Hour)), EndTime: new(w.Now()), ScanBy: watched.ScanByTimestampAscending, MaxDatapoints: new(int32(1)),
		MetricDataQueries: []watched.MetricDataQuery{{Id: new("m0"), MetricStat: &watched.MetricStat{
			Metric: &watched.Metric{Namespace: new("Shop"), MetricName: new("Backlog"), Dimensions: dimensions}, Period: new(int32(60)), Stat: new("Maximum"),
		}}},
	}
	var values []float64
	for range 2 {
		out, err := w.metrics.GetMetricData(ctx, get)
		answered(t, err, "")
		values, get.NextToken = append(values, out.MetricDataResults[0].Values...), out.NextToken
	}
	if !slices.Equal(values, []float64{3, 4}) || get.NextToken != nil {
		t.Errorf("values %v, want 3 and 4", values)
	}
	get.MetricDataQueries[0].MetricStat.Stat = new("Max")
	_, err = w.metrics.GetMetricData(ctx, get)
	answered(t, err, "ValidationError")
}

func requestQueue(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	url, err := w.queue.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: new("weir-notices")})
	answered(t, err, "")
	if *url.QueueUrl != w.QueueURL() {
		t.Fatalf("GetQueueUrl = %s, want %s", *url.QueueUrl, w.QueueURL())
	}
	got, err := w.queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20, VisibilityTimeout: 60,
		MessageSystemAttributeNames: []queue.MessageSystemAttributeName{queue.MessageSystemAttributeNameAll},
	})
	answered(t, err, "")
	if len(got.Messages) != 2 {
		t.Fatalf("%d messages, want the warning and the recommendation", len(got.Messages))
	}
	_, err = w.queue.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url.QueueUrl, ReceiptHandle: got.Messages[0].ReceiptHandle, VisibilityTimeout: 600})
	answered(t, err, "")
	_, err = w.queue.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: got.Messages[1].ReceiptHandle})
	answered(t, err, "")
	_, err = w.queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl})
	answered(t, err, "")
}

func change(t *testing.T, w *world, fleet string) {
	t.Helper()
	ctx := t.Context()
	_, err := w.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: new("plain"), DesiredCapacity: new(int32(9)), HonorCooldown: new(false)})
	answered(t, err, "")
	_, err = w.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: new(w.Instances("mixed")[0].ID), ShouldDecrementDesiredCapacity: new(true),
	})
	answered(t, err, "")
	_, err = w.compute.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{w.Instances(fleet)[0].ID, w.Instances("spot")[1].ID}})
	answered(t, err, "")
	_, err = w.compute.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{w.Instances(fleet)[1].ID}, DryRun: new(true)})
	answered(t, err, "DryRunOperation")
	_, err = w.compute.ModifySpotFleetRequest(ctx, &ec2.ModifySpotFleetRequestInput{
		SpotFleetRequestId: &fleet, TargetCapacity: new(int32(8)), ExcessCapacityTerminationPolicy: compute.ExcessCapacityTerminationPolicyNoTermination,
	})
	answered(t, err, "")
}

func refused(t *testing.T, w *world, fleet string) {
	t.Helper()
	ctx := t.Context()
	_, err := w.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: new("plain"), DesiredCapacity: new(int32(10))})
	answered(t, err, "ValidationError")
	_, err = w.compute.ModifySpotFleetRequest(ctx, &ec2.ModifySpotFleetRequestInput{SpotFleetRequestId: &fleet, TargetCapacity: new(int32(8))})
	answered(t, err, "FleetNotInModifiableState")
	_, err = w.queue.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: new("nobody's")})
	answered(t, err, "AWS.SimpleQueueService.NonExistentQueue")
	w.Throttle("", 3)
	for _, want := range []string{"Throttling", "RequestLimitExceeded", "ThrottlingException"} {
		switch want {
		case "Throttling":
			_, err = w.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
		case "RequestLimitExceeded":
			_, err = w.compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		default:
			_, err = w.queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: new(w.QueueURL())})
		}
		answered(t, err, want)
	}
}

// answered checks the error code of a response. An empty code means no error.
func answered(t *testing.T, err error, code string) {
	t.Helper()
	refusal, _ := errors.AsType[smithy.APIError](err)
	switch {
	case err == nil && code == "":
	case err == nil:
		t.Fatalf("no error, want %s", code)
	case refusal == nil || refusal.ErrorCode() != code:
		t.Fatalf("error %v, want code %q", err, code)
	}
}
