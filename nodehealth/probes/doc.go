// Package probes asks nodes by HTTP how they are: NODE_STATUS_POLL_URL, with all of
// Senlin's options. A [Prober] is a health.Probe.
//
//	p, err := probes.New(probes.Config{Options: mode.Options, Interval: 30 * time.Second, Allowed: networks})
//	url, err := p.Expand(probes.Names{Node: "i-1", PrivateIP: "10.0.0.7", ...})
//	err = p.Probe(ctx, targets, tell)
//
// A node is ok if an attempt is answered with a status of 2xx and a body of at most
// 512 KiB in which poll_url_healthy_response is found; it is tried up to
// poll_url_retry_limit times in all, poll_url_retry_interval apart. After the last one
//
//   - another status, or a body without the pattern, is a failure: the node has spoken;
//   - no connection, no answer in time, a broken or too long one, a bad certificate and
//     a redirect to another host are a failure, or unknown, as
//     poll_url_conn_error_as_unhealthy says;
//   - what is our own trouble is unknown, and is not tried again: a host that is
//     outside the allowed networks or has no address, no descriptors or no route here.
//
// A host is resolved once a round, and the address that was found is asked, even after
// a redirect. No proxy is used, and no connection is kept.
//
// A round ends within the interval. Who waits to be tried again keeps no worker, so
// dead nodes cost their timeouts only; a target whose turn does not come in time is
// unknown, and rounds begin where the last one ended.
//
// A Prober may be used concurrently.
package probes
