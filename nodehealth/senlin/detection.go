package senlin

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/strictyaml"
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
		r.wrong(t, detectionPath+".options", "stands beside detection_modes: options are of a mode, or of a type as in version 1.0")
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

// round names a node's attempts that outlast the interval, which Senlin waited for.
func (r *reader) round(d judge.Detection, path string) {
	o := d.Modes[len(d.Modes)-1].Options
	if o.PollRetryLimit == nil {
		return
	}
	attempts := judge.Duration(*o.PollRetryLimit)
	if longest := attempts**o.PollTimeout + (attempts-1)**o.PollRetryInterval; longest >= *d.Interval {
		r.lose(path+".poll_url_retry_limit", "with poll_url_retry_interval makes %v of a node that does not answer: here a round ends within the interval "+
			"of %v, and such a policy is refused where it is used; lower one of the two, or raise the interval", longest, *d.Interval)
	}
}

// legacy reads the form of version 1.0.
func (r *reader) legacy(root strictyaml.Value, f fields) judge.Detection {
	for _, key := range []string{"detection_modes", "recovery_conditional", "interval", "node_update_timeout"} {
		if t, ok := f[key]; ok {
			r.wrong(t, detectionPath+"."+key, "stands beside type: version 1.0 has type and options, later ones have detection_modes")
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

// timing reads what all modes have in common, and says what is another in all of them.
func (r *reader) timing(f fields, path string) judge.Detection {
	d := judge.Detection{
		Interval:          r.seconds(f, path, "interval", 60),
		NodeUpdateTimeout: r.seconds(f, path, "node_update_timeout", 300),
	}
	r.lines["detection.interval"], r.lines["detection.node_update_timeout"] = f["interval"].Line, f["node_update_timeout"].Line
	if *d.Interval < judge.Duration(60*time.Second) {
		r.lose(path+".interval", "is below 60 s, which Senlin takes only where health_check_interval_min was lowered: it is kept")
	}
	r.lose(path+".node_update_timeout", "is the grace since a node's launch; Senlin began it anew with every status that it wrote, "+
		"which a manual check did too, and waited as long for the end of a recovery: here each action has its own timeout")
	r.lose(path, "Senlin takes a node for healthy when the check itself fails, and acts on the first failure; "+
		"here it is unknown then, alarms after 10 minutes, and two failures in a row are wanted (failure_threshold)")
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
	types := []string{string(judge.LifecycleEvents), string(judge.NodeStatus), string(judge.PollURL), string(judge.HypervisorStatus), string(judge.LBStatus)}
	m := judge.DetectionMode{Type: judge.ModeType(r.oneOf(t, path+".type", types...))}
	if m.Type == judge.PollURL {
		m.Options = r.url(options, path+".options")
		return m
	}
	for _, key := range urlOptions() {
		if _, ok := options[key]; ok {
			r.lose(path+".options."+key, "is left out: only NODE_STATUS_POLL_URL reads it, in Senlin too")
		}
	}
	if m.Type == judge.LifecycleEvents {
		r.lose(path, "an event recovered the node at once in Senlin; here it causes a check, and what is found then counts. "+
			"As Senlin has no mode beside it, what its events miss is never found: add NODE_STATUS_POLLING")
	}
	return m
}

// url reads the options of NODE_STATUS_POLL_URL.
func (r *reader) url(f fields, path string) judge.Options {
	retry := r.whole(f, path, "poll_url_retry_interval", 3)
	timeout := max(time.Second, time.Duration(retry)*time.Second/10) // as Senlin makes it
	if timeout > time.Minute {
		r.lose(path+".poll_url_retry_interval", "made Senlin wait %v for an answer: here a minute is the most", timeout)
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
			"is no regular expression here, where there is no looking around and no reference back: %v", err)
	}
	if !*o.PollErrorAsUnhealthy {
		r.lose(path+".poll_url_conn_error_as_unhealthy", "is false: a node that cannot be reached was healthy, and is unknown here; "+
			"one that answers with another status than 2xx was healthy too, and fails here")
	}
	r.lose(path+".poll_url", "{nodename} is the node's id here; a name that cannot be resolved, and an address outside the allowed networks, "+
		"are unknown; redirects to another host are not followed; nodes are asked whatever their status is")
	return o
}
