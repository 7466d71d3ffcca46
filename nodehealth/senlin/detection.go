package senlin

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const detectionPath = "properties.detection"

// urlOptions are the options of NODE_STATUS_POLL_URL.
func urlOptions() []string {
	return []string{"poll_url", "poll_url_ssl_verify", "poll_url_conn_error_as_unhealthy", "poll_url_healthy_response",
		"poll_url_retry_limit", "poll_url_retry_interval"}
}

// detection reads both forms: one type with its options (1.0), and a list of modes.
func (r *reader) detection(root strictyaml.Value) judge.Detection {
	r.lines["detection"] = root.Line
	f := r.object(root, detectionPath, "interval", "node_update_timeout", "recovery_conditional", "detection_modes", "type", "options")
	if _, legacy := f["type"]; legacy {
		return r.legacy(root, f)
	}
	d := r.timing(f, detectionPath)
	if t, ok := f["options"]; ok {
		r.wrong(t, detectionPath+".options", "conflicts with detection_modes: options belong to a mode, or to a type as in version 1.0")
	}
	d.Conditional = judge.AnyFailed
	if t, ok := f["recovery_conditional"]; ok {
		d.Conditional = judge.Conditional(r.oneOf(t, detectionPath+".recovery_conditional", string(judge.AnyFailed), string(judge.AllFailed)))
	}
	for i, t := range r.sequence(f["detection_modes"], detectionPath+".detection_modes") {
		at := fmt.Sprintf("%s.detection_modes[%d]", detectionPath, i)
		r.lines[fmt.Sprintf("detection.detection_modes[%d]", i)] = t.Line
		mode := r.object(t.Value, at, "type", "options")
		d.Modes = append(d.Modes, r.mode(t.Value, mode, at))
		r.round(d, at+".options")
	}
	return d
}

// round reports a node's attempts that last longer than the interval. Senlin waited for them.
func (r *reader) round(d judge.Detection, path string) {
	o := d.Modes[len(d.Modes)-1].Options
	if o.PollRetryLimit == nil {
		return
	}
	attempts := judge.Duration(*o.PollRetryLimit)
	if longest := attempts**o.PollTimeout + (attempts-1)**o.PollRetryInterval; longest >= *d.Interval {
		r.lose(path+".poll_url_retry_limit", "with poll_url_retry_interval takes %v for a node without a response: here a round ends within the interval "+
			"of %v, and such a policy is rejected; lower one of the two, or raise the interval", longest, *d.Interval)
	}
}

// legacy reads the form of version 1.0.
func (r *reader) legacy(root strictyaml.Value, f fields) judge.Detection {
	for _, key := range []string{"detection_modes", "recovery_conditional", "interval", "node_update_timeout"} {
		if t, ok := f[key]; ok {
			r.wrong(t, detectionPath+"."+key, "conflicts with type: version 1.0 has type and options, later ones have detection_modes")
		}
	}
	options := fields{}
	if t, ok := f["options"]; ok && t.Kind != strictyaml.Null {
		options = r.object(t, detectionPath+".options", append(urlOptions(), "interval", "node_update_timeout")...)
	}
	d := r.timing(options, detectionPath+".options")
	d.Conditional = judge.AnyFailed
	r.lines["detection.detection_modes[0]"] = root.Line
	d.Modes = []judge.DetectionMode{r.typed(f["type"], detectionPath, options)}
	r.round(d, detectionPath+".options")
	return d
}

// timing reads the keys that all modes share, and reports the differences of every policy.
func (r *reader) timing(f fields, path string) judge.Detection {
	d := judge.Detection{
		Interval:          r.seconds(f, path, "interval", 60),
		NodeUpdateTimeout: r.seconds(f, path, "node_update_timeout", 300),
	}
	r.lines["detection.interval"], r.lines["detection.node_update_timeout"] = f["interval"].Line, f["node_update_timeout"].Line
	if *d.Interval < judge.Duration(60*time.Second) {
		r.lose(path+".interval", "is below 60 s, which Senlin accepts only with a lower health_check_interval_min: it is unchanged")
	}
	r.lose(path+".node_update_timeout", "is the grace period after a node's launch; Senlin restarted it with every status that it wrote, "+
		"also in a manual check, and waited as long for the end of a recovery: here each action has its own timeout")
	r.lose(path, "Senlin treats a node as healthy when the check itself fails, and acts on the first failure; "+
		"here the node is then unknown, with an alarm after 10 minutes, and two failures in a row are required (failure_threshold)")
	return d
}

func (r *reader) mode(t strictyaml.Value, f fields, path string) judge.DetectionMode {
	options := fields{}
	if o, ok := f["options"]; ok && o.Kind != strictyaml.Null {
		options = r.object(o, path+".options", urlOptions()...)
	}
	if _, ok := f["type"]; !ok {
		r.wrong(t, path+".type", "is missing")
		return judge.DetectionMode{}
	}
	return r.typed(f["type"], path, options)
}

func (r *reader) typed(t strictyaml.Value, path string, options fields) judge.DetectionMode {
	types := []string{string(api.DetectLifecycleEvents), string(api.DetectNodeStatus), string(api.DetectPollURL), string(api.DetectHypervisorStatus), string(api.DetectLBStatus)}
	m := judge.DetectionMode{Type: api.DetectionType(r.oneOf(t, path+".type", types...))}
	if m.Type == api.DetectPollURL {
		m.Options = r.url(options, path+".options")
		return m
	}
	for _, key := range urlOptions() {
		if _, ok := options[key]; ok {
			r.lose(path+".options."+key, "is dropped: only NODE_STATUS_POLL_URL uses it, also in Senlin")
		}
	}
	if m.Type == api.DetectLifecycleEvents {
		r.lose(path, "in Senlin an event recovered the node at once; here it causes a check, and the result of the check counts. "+
			"Without another mode, a failure without an event is never found: add NODE_STATUS_POLLING")
	}
	return m
}

// url reads the options of NODE_STATUS_POLL_URL.
func (r *reader) url(f fields, path string) judge.Options {
	retry := r.whole(f, path, "poll_url_retry_interval", 3)
	timeout := max(time.Second, time.Duration(retry)*time.Second/10) // as in Senlin
	if timeout > time.Minute {
		r.lose(path+".poll_url_retry_interval", "made Senlin wait %v for a response: the maximum here is a minute", timeout)
		timeout = time.Minute
	}
	o := judge.Options{
		PollURL:              r.scalar(f, path, "poll_url"),
		PollVerify:           new(r.flag(f, path, "poll_url_ssl_verify", true)),
		PollErrorAsUnhealthy: new(r.flag(f, path, "poll_url_conn_error_as_unhealthy", true)),
		PollHealthyResponse:  r.scalar(f, path, "poll_url_healthy_response"),
		PollRetryLimit:       new(r.whole(f, path, "poll_url_retry_limit", 3)),
		PollRetryInterval:    new(judge.Duration(time.Duration(retry) * time.Second)),
		PollTimeout:          new(judge.Duration(timeout)),
	}
	if _, err := regexp.Compile(o.PollHealthyResponse); err != nil {
		r.wrong(f["poll_url_healthy_response"], path+".poll_url_healthy_response",
			"is not a valid regular expression here (RE2: no lookaround, no back-references): %v", err)
	}
	if !*o.PollErrorAsUnhealthy {
		r.lose(path+".poll_url_conn_error_as_unhealthy", "is false: an unreachable node was healthy in Senlin, and is unknown here; "+
			"a node with a status other than 2xx was healthy too, and fails here")
	}
	r.lose(path+".poll_url", "{nodename} is the node's id here; a name that does not resolve, and an address outside the allowed networks, "+
		"are unknown; redirects to another host are not followed; nodes are probed in every status")
	return o
}
