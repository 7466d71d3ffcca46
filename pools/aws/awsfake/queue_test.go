package awsfake_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	queue "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

func (w *world) receive(ctx context.Context, t *testing.T, wait int32) []queue.Message {
	t.Helper()
	out, err := w.queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: new(w.QueueURL()), MaxNumberOfMessages: 10, WaitTimeSeconds: wait})
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

func TestInterruption(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.AddGroup(awsfake.ASG{Name: "web", Max: 9, Desired: 2, Spot: true})
	id := w.Instances("web")[0].ID
	w.Interrupt(id)
	w.Interrupt(id) // sends one warning
	got := w.receive(t.Context(), t, 0)
	if len(got) != 1 {
		t.Fatalf("%d messages, want 1", len(got))
	}
	var event struct {
		DetailType string `json:"detail-type"`
		Source     string
		Time       time.Time
		Detail     struct {
			Instance string `json:"instance-id"`
			Action   string `json:"instance-action"`
		}
	}
	if err := json.Unmarshal([]byte(*got[0].Body), &event); err != nil {
		t.Fatal(err)
	}
	if event.DetailType != "EC2 Spot Instance Interruption Warning" || event.Source != "aws.ec2" || event.Detail.Instance != id || event.Detail.Action != "terminate" || !event.Time.Equal(w.Now()) {
		t.Errorf("event %s", *got[0].Body)
	}
	w.Advance(2*time.Minute - time.Second)
	if n := w.alive("web"); n != 2 {
		t.Errorf("%d instances before two minutes have passed, want 2", n)
	}
	w.Advance(time.Second)
	out, err := w.compute.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if answered(t, err, ""); *out.Reservations[0].Instances[0].StateReason.Code != "Server.SpotInstanceTermination" {
		t.Errorf("instance %+v", out.Reservations[0].Instances[0])
	}
	w.pass()
	if n := w.alive("web"); n != 2 || w.Endings()[0].By != awsfake.ByInterruption {
		t.Errorf("%d instances, endings %v; want it replaced", n, w.Endings())
	}
}

func TestQueueRedelivers(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	w.Send("hello")
	first := w.receive(t.Context(), t, 0)
	if len(first) != 1 || len(w.receive(t.Context(), t, 0)) != 0 {
		t.Fatalf("messages %v, want one, and then none", first)
	}
	_, err := w.queue.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: new(w.QueueURL()), ReceiptHandle: first[0].ReceiptHandle, VisibilityTimeout: 60})
	answered(t, err, "")
	w.Advance(59 * time.Second)
	if got := w.receive(t.Context(), t, 0); len(got) != 0 {
		t.Fatal("the message came too early")
	}
	w.Advance(time.Second)
	again := w.receive(t.Context(), t, 0)
	if len(again) != 1 || *again[0].ReceiptHandle == *first[0].ReceiptHandle {
		t.Fatalf("messages %v, want it again with another handle", again)
	}
	for range 2 {
		_, err = w.queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: new(w.QueueURL()), ReceiptHandle: again[0].ReceiptHandle})
		answered(t, err, "")
	}
	if w.QueueLength() != 0 {
		t.Error("the message is still there")
	}
	_, err = w.queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: new(w.QueueURL()), ReceiptHandle: new("x")})
	answered(t, err, "ReceiptHandleIsInvalid")
}

func TestQueueLongPoll(t *testing.T) {
	for _, test := range []struct {
		name  string
		until func(*world)
		want  int
	}{
		{"a message comes", func(w *world) {
			if w.QueueLength() == 0 { // a second message would come too
				w.Send("hello")
			}
		}, 1},
		{"time passes", func(w *world) { w.Advance(20 * time.Second) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, awsfake.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			got := make(chan []queue.Message)
			go func() { got <- w.receive(ctx, t, 20) }()
			for {
				select {
				case messages := <-got:
					if len(messages) != test.want {
						t.Errorf("%d messages, want %d", len(messages), test.want)
					}
					return
				case <-time.After(20 * time.Millisecond):
					test.until(w) // also if the first one was too early
				}
			}
		})
	}
}
