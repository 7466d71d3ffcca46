package autoscalerd

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/nodehealth/probes"
	"github.com/weirkeeper/weirkeeper/nodehealth/workflow"
)

// CheckHealth checks a valid policy with the code that carries it out: URL probes and workflows.
func CheckHealth(p config.Pool) error {
	if p.Health == nil {
		return nil
	}
	policy, networks := p.Health.WithDefaults(), netguard.Networks(p.Allowed())
	var errs []error
	for i, m := range policy.Detection.Modes {
		if m.Type == api.DetectPollURL {
			err := probes.Config{Options: m.Options, Interval: time.Duration(*m.Options.Interval), Allowed: networks}.Validate()
			errs = append(errs, below(fmt.Sprintf("detection.detection_modes[%d].options.", i), err)...)
		}
	}
	for i, a := range policy.Recovery.Actions {
		if a.Name == api.ActionWorkflow {
			err := workflow.New(workflow.Config{Allowed: networks}).Check(a)
			errs = append(errs, below(fmt.Sprintf("recovery.actions[%d].", i), err)...)
		}
	}
	return p.HealthProblems(errors.Join(errs...))
}

// below adds a path prefix to the problems of a part of a policy.
func below(path string, err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var out []error
	for _, one := range joined.Unwrap() {
		if p, ok := errors.AsType[*judge.Problem](one); ok {
			one = &judge.Problem{Path: path + p.Path, What: p.What}
		}
		out = append(out, one)
	}
	return out
}
