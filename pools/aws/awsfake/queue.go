package awsfake

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// visibility is the default time for which a received message is hidden.
const visibility = 30 * time.Second

// queue is a standard queue: a received message is hidden for a while, and returns if it was not
// deleted.
type queue struct {
	*cloud
	messages []*message
}

type message struct {
	id, body string
	sent     time.Time
	hidden   time.Time // until this time
	first    time.Time // time of the first receive
	receives int
}

func (c *queue) send(body string) {
	c.messages = append(c.messages, &message{id: c.uuid(), body: body, sent: c.now})
}

// announce sends an event of EventBridge to the queue.
func (c *queue) announce(source, what, resource string, detail any) {
	body, _ := json.Marshal(struct {
		Version    string   `json:"version"`
		ID         string   `json:"id"`
		DetailType string   `json:"detail-type"`
		Source     string   `json:"source"`
		Account    string   `json:"account"`
		Time       string   `json:"time"`
		Region     string   `json:"region"`
		Resources  []string `json:"resources"`
		Detail     any      `json:"detail"`
	}{
		Version: "0", ID: c.uuid(), DetailType: what, Source: source, Account: c.config.Account, Time: iso(c.now), Region: c.config.Region,
		Resources: []string{resource}, Detail: detail,
	})
	c.send(string(body))
}

// warn sends a warning about an instance.
func (c *queue) warn(i *instance, what, action string) {
	detail := map[string]string{"instance-id": i.id}
	if action != "" {
		detail["instance-action"] = action
	}
	c.announce("aws.ec2", what, i.arn(), detail)
}

// changed sends the new state of an instance, if Config.Changes is set.
func (c *queue) changed(i *instance) {
	if c.config.Changes {
		c.announce("aws.ec2", "EC2 Instance State-change Notification", i.arn(), map[string]string{"instance-id": i.id, "state": i.state})
	}
}

// sendActivity sends a launch or a termination in a group, if Config.Changes is set.
func (c *queue) sendActivity(g *group, i *instance, what string) {
	if c.config.Changes {
		c.announce("aws.autoscaling", what, c.groupARN(g.Name), map[string]string{
			"AutoScalingGroupName": g.Name, "EC2InstanceId": i.id, "StatusCode": "InProgress", "Cause": g.reason,
		})
	}
}

// incident sends an AWS Health event about instances.
func (c *queue) incident(code string, ids []string) {
	type entity struct {
		Value string `json:"entityValue"`
	}
	detail := struct {
		Service  string   `json:"service"`
		Code     string   `json:"eventTypeCode"`
		Category string   `json:"eventTypeCategory"`
		Entities []entity `json:"affectedEntities"`
	}{Service: "EC2", Code: code, Category: "scheduledChange"}
	for _, id := range ids {
		detail.Entities = append(detail.Entities, entity{id})
	}
	c.announce("aws.health", "AWS Health Event", "", detail)
}

// queueFault is an error response of SQS.
type queueFault struct {
	Type    string `json:"__type"`
	Message string `json:"message"`
}

// queryCode returns the error code as in the query protocol.
func queryCode(code string) string {
	if code == noQueue {
		return "AWS.SimpleQueueService.NonExistentQueue"
	}
	return code
}

const noQueue = "QueueDoesNotExist"

func queueOperations() map[string]operation {
	return map[string]operation{
		"GetQueueUrl": {do: getQueueURL, on: "QueueName", params: []string{"QueueName", "QueueOwnerAWSAccountId"}},
		"ReceiveMessage": {do: receiveMessage, on: "QueueUrl", params: []string{
			"QueueUrl", "MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds",
			"AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames",
		}},
		"DeleteMessage":           {do: deleteMessage, on: "QueueUrl", params: []string{"QueueUrl", "ReceiptHandle"}},
		"ChangeMessageVisibility": {do: changeVisibility, on: "QueueUrl", params: []string{"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}},
	}
}

func getQueueURL(r *request) (any, error) {
	if r.params["QueueName"] != r.config.Queue {
		return nil, refuse(noQueue, "The specified queue does not exist.")
	}
	return map[string]string{"QueueUrl": r.url + "/" + r.config.Account + "/" + r.config.Queue}, nil
}

type received struct {
	Messages []receivedMessage `json:",omitempty"`
}

type receivedMessage struct {
	MessageID     string `json:"MessageId"`
	ReceiptHandle string
	MD5OfBody     string
	Body          string
	Attributes    map[string]string `json:",omitempty"`
}

func receiveMessage(r *request) (any, error) {
	if err := r.known(); err != nil {
		return nil, err
	}
	most, err1 := r.params.whole("MaxNumberOfMessages", 1, 1, 10)
	hide, err2 := r.params.whole("VisibilityTimeout", int(visibility/time.Second), 0, 43200)
	wait, err3 := r.params.whole("WaitTimeSeconds", 0, 0, 20)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, err
		}
	}
	var out received
	for _, m := range r.queue.messages {
		if len(out.Messages) == most || m.hidden.After(r.now) {
			continue
		}
		out.Messages = append(out.Messages, m.receive(r, time.Duration(hide)*time.Second))
	}
	if len(out.Messages) == 0 && wait > 0 {
		return nil, &empty{patience: time.Duration(wait) * time.Second, answer: out}
	}
	return out, nil
}

func (m *message) receive(r *request, hide time.Duration) receivedMessage {
	if m.receives++; m.receives == 1 {
		m.first = r.now
	}
	m.hidden = r.now.Add(hide)
	sum := md5.Sum([]byte(m.body))
	all := map[string]string{
		"SentTimestamp":                    fmt.Sprint(m.sent.UnixMilli()),
		"ApproximateReceiveCount":          fmt.Sprint(m.receives),
		"ApproximateFirstReceiveTimestamp": fmt.Sprint(m.first.UnixMilli()),
		"SenderId":                         r.config.Account,
	}
	asked := r.params["AttributeNames"] + r.params["MessageSystemAttributeNames"]
	for name := range all {
		if !strings.Contains(asked, `"All"`) && !strings.Contains(asked, `"`+name+`"`) {
			delete(all, name)
		}
	}
	return receivedMessage{
		MessageID: m.id, ReceiptHandle: fmt.Sprintf("%s#%d", m.id, m.receives),
		MD5OfBody: hex.EncodeToString(sum[:]), Body: m.body, Attributes: all,
	}
}

func deleteMessage(r *request) (any, error) {
	m, err := r.find()
	if err != nil {
		return nil, err
	}
	r.queue.messages = slices.DeleteFunc(r.queue.messages, func(other *message) bool { return other == m })
	return struct{}{}, nil
}

func changeVisibility(r *request) (any, error) {
	m, err := r.find()
	if err != nil {
		return nil, err
	}
	hide, err := r.params.whole("VisibilityTimeout", 0, 0, 43200)
	if err != nil {
		return nil, err
	}
	if m == nil || !m.hidden.After(r.now) {
		return nil, refuse("MessageNotInflight", "The specified message isn't in flight.")
	}
	m.hidden = r.now.Add(time.Duration(hide) * time.Second)
	return struct{}{}, nil
}
