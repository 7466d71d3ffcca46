// Package workflow carries out WORKFLOW, a repair that somebody else knows: a command
// on this machine, a webhook, or a request on NATS. A [Runner] is a health.Workflow.
//
//	r := workflow.New(workflow.Config{Allowed: networks, Conn: nc, Keeper: keeper, Log: log})
//	err = r.Check(action)                  // when the policy is loaded
//	result, err := r.Run(ctx, action, in)  // ends at ctx's deadline
//
// # What it is told
//
// One JSON object: on standard input, as the body of a POST, or as the request.
//
//	{"version": 1, "cluster", "pool", "node", "physical_id", "zone", "attempt",
//	 "reason", "evidence": [...], "deadline": RFC 3339, "input": {...}}
//
// "input" is the action's, in which {{ node.id }}, {{ node.physicalid }},
// {{ node.name }}, {{ node.zone }}, {{ cluster.name }}, {{ pool.name }}, {{ attempt }}
// and {{ reason }} are replaced; so they are in a command's arguments.
//
// # What it answers
//
// One JSON object of at most 64 KiB, {"result": "ok|failed|escalate|skip", "reason"}.
// What does not begin with "{" is a text for people, and the status says the rest: 0
// of a command, 2xx of a webhook. An answer that cannot be read is a failure, and "ok"
// beside another status too.
//
// # Command
//
// argv is executed as it is, without a shell, in "/", with PATH, HOME, LANG and TZ of
// this process, and nothing else of its environment. A [supervise.Launcher] of its own
// starts it. All that the command started ends with it: when the command ends, at the
// deadline, or when this process dies. That includes a child in a session of its own. A
// child that also clears its environment is found by its cgroup, where this process may
// make cgroups.
//
// # Webhook
//
// A POST of application/json to an address within the allowed networks; redirects are
// not followed. Idempotency-Key is the attempt. With a secret_file, which only its
// owner may read, the request is signed:
//
//	Weir-Timestamp: seconds since 1970
//	Weir-Signature: sha256=hex(HMAC-SHA256(secret, timestamp + "." + body))
//
// The secret is the file without white space at its ends, read at each run.
//
// # NATS
//
// A request on the subject, with the header Idempotency-Key.
//
// A Runner may be used concurrently.
package workflow
