package bootstrap

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// receive processes an answer of one of the app's processes. It ignores answers of earlier processes.
func (s *appProcess) receive(a Answer) {
	if a.Address == "" {
		return // no process has an empty address
	}
	now := time.Now()
	s.mu.Lock()
	current, candidate, limit := s.current, s.candidate, s.plan.TimeLimit
	ours := candidate != nil && a.Candidate && candidate.isSourceOf(a)
	if ours && s.onTrialLocked() {
		if a.Difference != "" {
			s.log.Warn("shadow differs", "app", s.app, "release", candidate.plan.Ref().String(), "difference", a.Difference)
		}
		s.trial = Answered(s.trial, now, a, s.plan.Shadow.PromoteAfter)
	}
	if ours {
		s.verdict, s.refusal = a.Verdict, a.Why
	}
	s.mu.Unlock()
	if !a.Candidate && current.isSourceOf(a) {
		current.received(a, now, limit)
	}
	if ours {
		s.changed()
	}
}

// onTrialLocked reports whether the candidate is the shadow of the current plan.
func (s *appProcess) onTrialLocked() bool {
	return s.shadow && s.plan.Shadow != nil && s.candidate.plan.runsAs(s.plan.promoted())
}

// entry returns the app's entry in the directory.
func (s *appProcess) entry() Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := Entry{App: s.app, Endpoint: s.current.endpoint(s.current.requestConfig)}
	e.Address = cmp.Or(e.Address, s.current.plan.Address)
	if s.candidate == nil || !s.listed {
		return e
	}
	requestConfig := s.candidate.requestConfig
	if s.shadow {
		requestConfig = e.RequestConfig // the same request configuration, because the answers are compared
	}
	e.Candidate = &Candidate{Endpoint: s.candidate.endpoint(requestConfig), Shadow: s.shadow}
	if s.shadow && s.plan.Shadow != nil {
		e.Candidate.Tolerance = s.plan.Shadow.Tolerance
	}
	return e
}

// running returns the release of the app's signal that runs with that version.
func (s *appProcess) running(version string) release.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.current.plan.Ref()
	ref.Version = version
	return ref
}

func (s *appProcess) status() api.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.current.status()
	p.Address = cmp.Or(p.Address, s.current.plan.Address)
	p.Wanted = s.wantedLocked().Version
	trouble := s.trouble
	if s.candidate != nil {
		candidate := s.candidate.status()
		p.Candidate = &candidate
		if candidate.State == notFetched && !s.shadow {
			trouble = title(s.candidate.plan) + " is not fetched: " + candidate.Why
		}
	}
	if trouble != "" && p.Why != "" {
		p.Why += "; "
	}
	p.Why += trouble
	if s.plan.Shadow != nil {
		p.Trial = &api.TrialStatus{Trial: s.trial, PromoteAfter: s.plan.Shadow.PromoteAfter}
	}
	return p
}
