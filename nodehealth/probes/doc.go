// Package probes checks nodes by HTTP: NODE_STATUS_POLL_URL, with all of Senlin's options. A
// [Prober] is a nodehealth.Probe.
//
//	p, err := probes.New(probes.Config{Options: mode.Options, Interval: 30 * time.Second, Allowed: networks})
//	url, err := p.Expand(probes.Names{Node: "i-1", PrivateIP: "10.0.0.7", ...})
//	err = p.Probe(ctx, targets, report)
//
// A node is ok if an attempt gets a response with a status of 2xx and a matching body. The body has
// at most 512 KiB, and poll_url_healthy_response must match in it. A node is tried up to
// poll_url_retry_limit times in all, poll_url_retry_interval apart. After the last attempt:
//
//   - Another status, or a body without a match, is a failure: the node itself responded.
//   - No usable response is a failure or unknown: no connection, a timeout, a broken or too long
//     response, a bad certificate, or a redirect to another host. poll_url_conn_error_as_unhealthy
//     decides which.
//   - A problem on our side is unknown, without a retry: a host outside the allowed networks or
//     without an address, no descriptors, or no route.
//
// A host is resolved once a round, and the resolved address is used even after a redirect. No proxy
// is used, and no connection is reused.
//
// A round ends within the interval. A target occupies no worker between two attempts, so dead nodes
// cost only their timeouts. A target that is not tried in time is unknown. The next round begins
// with the targets that were not tried.
//
// A Prober may be used concurrently.
package probes
