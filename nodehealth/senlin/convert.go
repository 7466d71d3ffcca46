package senlin

import (
	"errors"
	"strings"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Convert reads a Senlin policy, at most 256 KiB. The error is Problems.
func Convert(data []byte) (judge.Policy, []Loss, error) {
	root, problem := parse(data)
	if problem != nil {
		return judge.Policy{}, nil, Problems{problem}
	}
	r := &reader{lines: map[string]int{}}
	policy := r.policy(root)
	if err := r.problems.orNil(); err != nil {
		return judge.Policy{}, nil, err
	}
	if err := r.refused(policy.Validate()).orNil(); err != nil {
		return judge.Policy{}, nil, err
	}
	return policy, r.losses, nil
}

// refused returns what a policy may not say here, at the lines that it was made of.
func (r *reader) refused(err error) Problems {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var out Problems
	for _, err := range joined.Unwrap() {
		p := &Problem{What: err.Error()}
		if mistake, ok := errors.AsType[*judge.Problem](err); ok {
			p.Line, p.Path, p.What = r.line(mistake.Path), mistake.Path, mistake.What
		}
		out = append(out, p)
	}
	return out
}

// line returns the line of a key of ours, or of the nearest one above.
func (r *reader) line(path string) int {
	for path != "" {
		if n, ok := r.lines[path]; ok {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

func (r *reader) policy(root tree) judge.Policy {
	top := r.object(root, "", "type", "version", "description", "properties")
	if root.kind != object || !r.isHealth(top, root) {
		return judge.Policy{} // it is something else
	}
	if version, ok := r.needed(top, root, "", "version"); ok {
		version.kind = text // 1.1 and "1.1" are the same to Senlin
		r.oneOf(version, "version", "1.0", "1.1", "1.2")
	}
	if _, ok := top["description"]; ok {
		r.lose("description", "is left out: there is no key for it")
	}
	properties, ok := r.needed(top, root, "", "properties")
	if !ok {
		return judge.Policy{}
	}
	r.lose("properties", "Senlin acts as soon as a policy is attached; this one observes, and tells what it would do, until mode is act")
	p := judge.Policy{Mode: judge.Observe}
	f := r.object(properties, "properties", "detection", "recovery")
	if detection, ok := r.needed(f, properties, "properties", "detection"); ok {
		p.Detection = r.detection(detection)
	}
	p.Recovery = r.recovery(f)
	return p
}

func (r *reader) isHealth(top fields, root tree) bool {
	const health = "senlin.policy.health"
	t, ok := r.needed(top, root, "", "type")
	if ok {
		r.oneOf(t, "type", health)
	}
	return ok && t.text == health
}

// needed returns the value of a key that must be there, or says that it is not.
func (r *reader) needed(f fields, of tree, path, key string) (tree, bool) {
	t, ok := f[key]
	if !ok {
		r.wrong(of, strings.TrimPrefix(path+"."+key, "."), "is missing")
	}
	return t, ok
}
