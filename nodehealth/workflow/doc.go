// Package workflow carries out WORKFLOW, a repair that operators provide: a command on this
// machine, a webhook, or a request on NATS. A [Runner] is a nodehealth.Workflow.
//
//	r := workflow.New(workflow.Config{Allowed: networks, Conn: nc, Keeper: keeper, Log: log})
//	err = r.Check(action)                  // when the policy is loaded
//	result, err := r.Run(ctx, action, in)  // ends at ctx's deadline
//
// # Input
//
// The input is one JSON object: on standard input, as the body of a POST, or as the request.
//
//	{"version": 1, "cluster", "pool", "node", "physical_id", "zone", "attempt",
//	 "reason", "evidence": [...], "deadline": RFC 3339, "input": {...}}
//
// "input" comes from the action. In it, and in a command's arguments, these names are replaced: {{
// node.id }}, {{ node.physicalid }}, {{ node.name }}, {{ node.zone }}, {{ cluster.name }}, {{
// pool.name }}, {{ attempt }} and {{ reason }}.
//
// # Response
//
// The response is one JSON object of at most 64 KiB, {"result": "ok|failed|escalate|skip",
// "reason"}. If it does not begin with "{", it is a text for operators, and the status decides:
// exit status 0 of a command, or 2xx of a webhook, is ok. A response that cannot be decoded is a
// failure. So is "ok" with a status that is not ok.
//
// # Command
//
// argv is executed directly, without a shell, in "/". Of this process's environment it has only
// PATH, HOME, LANG and TZ. A separate [supervise.Launcher] starts it. All processes of the command
// end with it: when the command ends, at the deadline, or when this process dies. That includes a
// child in another session. If this process may create cgroups, it also finds a child that clears
// its environment.
//
// # Webhook
//
// A webhook is a POST of application/json to an address within the allowed networks. Redirects are
// not followed. Idempotency-Key is the attempt. With a secret_file, which only its owner may read,
// the request is signed:
//
//	Weir-Timestamp: seconds since 1970
//	Weir-Signature: sha256=hex(HMAC-SHA256(secret, attempt + "." + timestamp + "." + body))
//
// The secret is the content of the file without surrounding white space. It is read at each run.
//
// # NATS
//
// A request goes to the subject, with the header Idempotency-Key.
//
// A Runner may be used concurrently.
package workflow
