package senlin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Convert reads a Senlin policy of at most 256 KiB. The error is [strictyaml.Problems].
func Convert(data []byte) (judge.Policy, []Loss, error) {
	roots, problem := strictyaml.Values(data, bounds())
	if problem == nil && len(roots) != 1 {
		problem = &strictyaml.Problem{What: fmt.Sprintf("has %d documents: want one", len(roots))}
	}
	if problem != nil {
		return judge.Policy{}, nil, strictyaml.Problems{problem}
	}
	r := &reader{lines: strictyaml.Lines{}}
	policy := r.policy(roots[0])
	if err := r.problems.OrNil(); err != nil {
		return judge.Policy{}, nil, err
	}
	if err := r.refused(policy.Validate()).OrNil(); err != nil {
		return judge.Policy{}, nil, err
	}
	return policy, r.losses, nil
}

// refused returns the mistakes of the converted policy, with the lines of Senlin's file.
func (r *reader) refused(err error) strictyaml.Problems {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var out strictyaml.Problems
	for _, err := range joined.Unwrap() {
		p := &strictyaml.Problem{What: err.Error()}
		if mistake, ok := errors.AsType[*judge.Problem](err); ok {
			p.Line, p.Key, p.What = r.lines.Near(mistake.Path), mistake.Path, mistake.What
		}
		out = append(out, p)
	}
	return out
}

func (r *reader) policy(root strictyaml.Value) judge.Policy {
	top := r.object(root, "", "type", "version", "description", "properties")
	if root.Kind != strictyaml.Map || !r.isHealth(top, root) {
		return judge.Policy{} // not a health policy
	}
	if version, ok := r.needed(top, root, "", "version"); ok {
		version.Kind = strictyaml.Text // 1.1 and "1.1" are the same to Senlin
		r.oneOf(version, "version", "1.0", "1.1", "1.2")
	}
	if _, ok := top["description"]; ok {
		r.lose("description", "is dropped: it has no counterpart here")
	}
	properties, ok := r.needed(top, root, "", "properties")
	if !ok {
		return judge.Policy{}
	}
	r.lose("properties", "Senlin acts as soon as a policy is attached; this policy only observes and reports until mode is act")
	p := judge.Policy{Mode: api.ModeObserve}
	f := r.object(properties, "properties", "detection", "recovery")
	if detection, ok := r.needed(f, properties, "properties", "detection"); ok {
		p.Detection = r.detection(detection)
	}
	p.Recovery = r.recovery(f)
	return p
}

func (r *reader) isHealth(top fields, root strictyaml.Value) bool {
	const health = "senlin.policy.health"
	t, ok := r.needed(top, root, "", "type")
	if ok {
		r.oneOf(t, "type", health)
	}
	return ok && t.Text == health
}

// needed returns the value of a required key, or reports that it is missing.
func (r *reader) needed(f fields, of strictyaml.Value, path, key string) (strictyaml.Value, bool) {
	t, ok := f[key]
	if !ok {
		r.wrong(of, strings.TrimPrefix(path+"."+key, "."), "is missing")
	}
	return t, ok
}
