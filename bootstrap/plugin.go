package bootstrap

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// Health checks of a plugin. A hung plugin is detected within 15 s.
const (
	healthEvery    = 5 * time.Second
	healthTimeout  = 3 * time.Second
	healthFailures = 3
)

// kind returns how bootstrap communicates with the process.
func (sig *signal) kind() api.ProcessKind {
	switch {
	case sig.plan.Kind != api.KindRelease:
		return sig.plan.Kind
	case !sig.plan.Shipped() && sig.release.installed.Manifest.Protocol > 0:
		return api.KindPlugin
	}
	return api.KindExec
}

// beginSession adds a control session to the spec of a plugin.
func (sig *signal) beginSession(spec supervise.Spec) (supervise.Spec, error) {
	kind := sig.kind()
	var session *control.Session
	if kind == api.KindPlugin {
		err := sig.appProcess.folder.restore()
		if err != nil {
			closeFile(spec.Executable)
			return supervise.Spec{}, err
		}
		if session, err = control.NewSession(control.Config{Folder: sig.appProcess.config.Folder, Owner: spec.User, Log: sig.log}); err != nil {
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

// endSession closes the session of the last start, if there is one.
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

// describe requests a plugin's description. It does nothing for other kinds.
func (sig *signal) describe(ctx context.Context) error {
	session := sig.openSession()
	if session == nil {
		return nil
	}
	about, err := session.Describe(ctx)
	if errors.Is(err, control.ErrHandshake) || errors.Is(err, control.ErrProtocol) {
		sig.process.Fail(err.Error()) // the process sends no other handshake
	}
	if err != nil {
		return err
	}
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.columnar = about.Columnar()
	return nil
}

// health requests a plugin's health. It returns nil for other kinds.
func (sig *signal) health(ctx context.Context) error {
	session := sig.openSession()
	if session == nil {
		return nil
	}
	return session.Health(ctx)
}
