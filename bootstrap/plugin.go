package bootstrap

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// How the health of a plugin is asked for: one that hangs is found out in a
// quarter of a minute.
const (
	healthEvery    = 5 * time.Second
	healthTimeout  = 3 * time.Second
	healthFailures = 3
)

// kind says how the process is spoken to.
func (sig *signal) kind() Kind {
	switch {
	case sig.plan.Kind != KindRelease:
		return sig.plan.Kind
	case !sig.plan.Shipped() && sig.release.installed.Manifest.Protocol > 0:
		return KindPlugin
	}
	return KindExec
}

// beginSession makes of the spec of a plugin one with a control plane.
func (sig *signal) beginSession(spec supervise.Spec) (supervise.Spec, error) {
	kind := sig.kind()
	var session *control.Session
	if kind == KindPlugin {
		var err error
		if session, err = control.NewSession(control.Config{Folder: sig.seat.config.Folder, Owner: spec.User, Log: sig.log}); err != nil {
			closeFile(spec.Executable)
			return supervise.Spec{}, err
		}
		spec = session.Prepare(spec)
	}
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.session, sig.kindNow, sig.columnar = session, kind, false
	return spec, nil
}

// endSession closes the session of the last start, if it had one.
func (sig *signal) endSession() {
	sig.mu.Lock()
	session := sig.session
	sig.session = nil
	sig.mu.Unlock()
	if session != nil {
		session.Close()
	}
}

func (sig *signal) openSession() *control.Session {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.session
}

// describe asks a plugin what it is. Nobody else is asked.
func (sig *signal) describe(ctx context.Context) error {
	session := sig.openSession()
	if session == nil {
		return nil
	}
	about, err := session.Describe(ctx)
	if errors.Is(err, control.ErrHandshake) || errors.Is(err, control.ErrProtocol) {
		sig.process.Fail(err.Error()) // it will not say anything else
	}
	if err != nil {
		return err
	}
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.columnar = about.Columnar()
	return nil
}

// health asks a plugin how it is. Of others only their answers tell.
func (sig *signal) health(ctx context.Context) error {
	session := sig.openSession()
	if session == nil {
		return nil
	}
	return session.Health(ctx)
}
