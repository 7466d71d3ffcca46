package awsfake_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// TestAlways makes random changes, and checks what must hold at any time.
func TestAlways(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := awstest.New(t, awsfake.Config{})
		zone := awsfake.Market{Type: "m5.large", Zone: "us-west-2a"}
		s.AddGroup(awsfake.ASG{Name: "web", Max: 30, Desired: 5})
		s.AddGroup(awsfake.ASG{Name: "heavy", Max: 30, Desired: 6, Types: []awsfake.Type{{Name: "m5.large", Weight: 2}, {Name: "m5.xlarge", Weight: 4}}})
		fleet := s.AddFleet(awsfake.SpotFleet{Target: 5, Specs: twoSpecs()})
		owners := []string{"web", "heavy", fleet}
		stock := -1
		anyone := func(r *rapid.T) string {
			all := s.Instances("")
			if len(all) == 0 {
				r.Skip("nobody is there")
			}
			return rapid.SampledFrom(all).Draw(r, "instance").ID
		}
		r.Repeat(map[string]func(*rapid.T){
			"target": func(r *rapid.T) {
				s.SetTarget(rapid.SampledFrom(owners).Draw(r, "owner"), rapid.IntRange(0, 30).Draw(r, "target"))
			},
			"stock": func(r *rapid.T) {
				stock = rapid.IntRange(-1, 6).Draw(r, "stock")
				s.SetStock(zone, stock)
			},
			"lose":      func(r *rapid.T) { s.Lose(anyone(r)) },
			"interrupt": func(r *rapid.T) { s.Interrupt(anyone(r)) },
			"protect":   func(r *rapid.T) { s.Protect(anyone(r), rapid.Bool().Draw(r, "on")) },
			"refresh":   func(*rapid.T) { s.StartRefresh("web") },
			"time":      func(r *rapid.T) { s.Advance(time.Duration(rapid.IntRange(1, 600).Draw(r, "s")) * time.Second) },
			"": func(r *rapid.T) {
				seen := map[string]bool{}
				for _, e := range s.Endings() {
					if seen[e.Instance] {
						r.Fatalf("instance %s ended twice", e.Instance)
					}
					seen[e.Instance] = true
				}
			},
		})
		s.SetStock(zone, -1)
		for _, i := range s.Instances("") {
			s.Protect(i.ID, false)
		}
		s.Advance(6 * time.Hour)
		for _, owner := range owners {
			has := 0.0
			for _, i := range s.Instances(owner) {
				has += i.Weight
			}
			if want := float64(s.Target(owner)); has < want || has >= want+4 {
				r.Fatalf("%s has %v in the end, with a target of %v", owner, has, want)
			}
		}
	})
}

// FuzzRequest sends random requests: each gets a response.
func FuzzRequest(f *testing.F) {
	f.Add("", "Action=DescribeAutoScalingGroups&Version=2011-01-01&Filters.member.1.Name=tag:a&Filters.member.1.Values.member.1=[", "autoscaling")
	f.Add("", "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag:a&Filter.1.Value.1=*&NextToken=LTE=", "ec2")
	f.Add("", "Action=TerminateInstances&Version=2016-11-15&InstanceId.1=i-00000000000000001", "ec2")
	f.Add("", "Action=CreateReplaceRootVolumeTask&Version=2016-11-15&InstanceId=i-00000000000000001&TagSpecification.1.Tag.1.Key=a", "ec2")
	f.Add("", "Action=DescribeTargetHealth&Version=2015-12-01&TargetGroupArn=front&Targets.member.1.Id=i-1&Targets.member.1.Port=-1", "elasticloadbalancing")
	f.Add("AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://h/123456789012/weir-notices","MaxNumberOfMessages":10}`, "sqs")
	f.Add("AmazonSQS.DeleteMessage", `{"QueueUrl":{},"ReceiptHandle":null}`, "sqs")
	s := awstest.New(f, awsfake.Config{})
	s.AddTargetGroup("front")
	s.AddGroup(awsfake.ASG{Name: "web", Max: 5, Desired: 3, Tags: map[string]string{"a": "b"}, TargetGroups: []string{"front"}})
	s.Send("hello")
	f.Fuzz(func(t *testing.T, target, body, service string) {
		if strings.Contains(body, "WaitTimeSeconds") {
			return // a long poll would wait
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("X-Amz-Target", target)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20240102/us-west-2/"+service+"/aws4_request, SignedHeaders=host, Signature=00")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || w.Body.Len() == 0 {
			t.Errorf("answer %d, %s", w.Code, w.Body)
		}
	})
}
