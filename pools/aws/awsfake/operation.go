package awsfake

import "strings"

// operation is an action of a service. Each service has a table of operations.
type operation struct {
	write bool
	// params are the supported parameters. Any other parameter is rejected. A name that ends in a
	// dot matches all names with that prefix.
	params []string
	// on is the parameter, or list of parameters, with the resource. Empty: no resource.
	on string
	do func(*request) (answer any, err error)
}

// request is an accepted request.
type request struct {
	*cloud        // for changes
	view   *world // for reads: it may lag
	params params
}

// pageSize returns the page size of the response.
func (r *request) pageSize(asked int) int {
	if r.config.PageSize > 0 {
		return min(asked, r.config.PageSize)
	}
	return asked
}

// named returns the group of a request.
func (r *request) named(w *world) (*group, error) {
	name := r.params["AutoScalingGroupName"]
	if g := w.group(name); g != nil {
		return g, nil
	}
	return nil, refuse("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup %s not found", name)
}

// changes returns the target group and the targets of a request that changes them.
func (r *request) changes() (*targetGroup, []registration, error) {
	g := r.targetGroup(r.params["TargetGroupArn"])
	if g == nil {
		return nil, nil, noTargetGroup()
	}
	targets, err := r.params.registrations()
	if err == nil && len(targets) == 0 {
		err = refuse("ValidationError", "At least one target must be specified")
	}
	for _, t := range targets {
		if err == nil && !strings.HasPrefix(t.id, "i-") {
			err = refuse("InvalidTarget", "Target ID '%s' is not valid", t.id)
		}
	}
	return g, targets, err
}

// known returns an error for the address of another queue.
func (r *request) known() error {
	if !strings.HasSuffix(r.params["QueueUrl"], "/"+r.config.Account+"/"+r.config.Queue) {
		return refuse(noQueue, "The specified queue does not exist.")
	}
	return nil
}

// find returns the message of a receipt handle, or nil if it was deleted.
func (r *request) find() (*message, error) {
	if err := r.known(); err != nil {
		return nil, err
	}
	id, _, ok := strings.Cut(r.params["ReceiptHandle"], "#")
	if !ok {
		return nil, refuse("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	}
	return first(r.queue.messages, func(m *message) bool { return m.id == id }), nil
}

// service is one service of AWS.
type service struct {
	name       string // as in request signatures and in action names
	operations map[string]operation
	throttled  fault
	denied     func(user, right, arn string) string
	deniedCode string
}

// services returns new tables for each Server, so that tests cannot change those of another one.
func services() map[string]service {
	return map[string]service{
		"ec2": {
			name: "ec2", operations: ec2Operations(), deniedCode: "UnauthorizedOperation",
			throttled: fault{503, "RequestLimitExceeded", "Request limit exceeded."},
			denied: func(user, right, arn string) string {
				return "You are not authorized to perform this operation. " + deniedText(user, right, arn) +
					" Encoded authorization failure message: " + encodedMessage
			},
		},
		"autoscaling": {
			name: "autoscaling", operations: scalingOperations(), deniedCode: "AccessDenied",
			throttled: fault{400, "Throttling", "Rate exceeded"}, denied: deniedText,
		},
		"elasticloadbalancing": {
			name: "elasticloadbalancing", operations: balancerOperations(), deniedCode: "AccessDenied",
			throttled: fault{400, "Throttling", "Rate exceeded"}, denied: deniedText,
		},
		monitoring: monitoringService(),
		pricing: {
			name: pricing, operations: pricingOperations(), deniedCode: "AccessDeniedException",
			throttled: fault{400, "ThrottlingException", "Rate exceeded"}, denied: deniedText,
		},
		"sqs": {
			name: "sqs", operations: queueOperations(), deniedCode: "AccessDenied",
			throttled: fault{400, "ThrottlingException", "Rate exceeded"}, denied: deniedText,
		},
	}
}

// encodedMessage is a placeholder for the encoded message of EC2.
const encodedMessage = "4GIOHlTkIaWHQD0Q0m6XSnuUMCm-abcdefghijklmn"

func deniedText(user, right, arn string) string {
	on := ""
	if arn != "" {
		on = " on resource: " + arn
	}
	return "User: " + user + " is not authorized to perform: " + right + on +
		" because no identity-based policy allows the " + right + " action"
}
