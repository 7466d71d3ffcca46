package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// callLimit bounds a call, whatever its context allows.
const callLimit = 10 * time.Second

// Config configures a session.
type Config struct {
	// Folder is the absolute path, at most 69 bytes, where the folder of the process's socket is created. Close removes
	// that folder. Empty means os.TempDir.
	Folder string

	// Owner, if not zero, is the user id of the process. It owns the folder of its socket.
	Owner int

	// Log receives the process's log records, with their levels. Their attributes are in the group "attrs".
	Log *slog.Logger
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Log == nil {
		errs = append(errs, errors.New("no logger"))
	}
	switch folder := c.folder(); {
	case !filepath.IsAbs(folder):
		errs = append(errs, fmt.Errorf("folder %s is not absolute", folder))
	case len(folder)+len("/plugin-dir0123456789/plugin0123456789") > maxPath:
		errs = append(errs, fmt.Errorf("folder %s has %d bytes: too long for a socket below it", folder, len(folder)))
	}
	return errors.Join(errs...)
}

func (c Config) folder() string {
	if c.Folder == "" {
		return filepath.Clean(os.TempDir())
	}
	return filepath.Clean(c.Folder)
}

// Session is the control connection of one process, created before its start. See the package comment.
type Session struct {
	log    *slog.Logger
	client *plugin.Client
	link   *attachment
	env    []string // the environment that go-plugin requires
	stdout *lineWriter
	stderr *lineWriter

	connecting sync.WaitGroup
	connected  chan struct{}
	remote     remote // set before connected is closed
	protocol   int    // set before connected is closed
	err        error  // set before connected is closed; why there is no connection

	closing sync.Once

	mu   sync.Mutex
	spec supervise.Spec // as passed to Prepare
}

// NewSession returns a session for a process that has not started.
func NewSession(config Config) (*Session, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("control session: %w", err)
	}
	s := &Session{log: config.Log, link: newAttachment(config.Owner), connected: make(chan struct{})}
	s.stdout = newLineWriter(func(line []byte) { s.forwardedLine(output.Stdout, line) })
	s.stderr = newLineWriter(func(line []byte) { s.forwardedLine(output.Stderr, line) })
	s.client = plugin.NewClient(s.clientConfig(config))
	s.connecting.Go(s.connect)
	select {
	case cmd := <-s.link.prepared:
		s.env = cmd.Env
		return s, nil
	case <-s.connected: // it ended before it needed the process
		s.connecting.Wait()
		return nil, fmt.Errorf("control session: %w", s.err)
	}
}

func (s *Session) clientConfig(config Config) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			MagicCookieKey: signalv1.CookieKey, MagicCookieValue: signalv1.CookieValue,
		},
		VersionedPlugins: map[int]plugin.PluginSet{signalv1.ProtocolVersion: {signalv1.PluginName: controlPlugin{}}},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, folder string) (runner.Runner, error) {
			if err := s.link.prepare(cmd, folder); err != nil {
				return nil, err
			}
			return s.link, nil
		},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		SyncStdout:       s.stdout,
		SyncStderr:       s.stderr,
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions:  dialOptions(s.link),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: config.folder()},
	}
}

// connect waits for the handshake, then connects.
func (s *Session) connect() {
	defer close(s.connected)
	if _, s.err = s.client.Start(); s.err != nil {
		return
	}
	s.protocol = s.client.NegotiatedVersion()
	protocol, err := s.client.Client()
	if err != nil {
		s.err = fmt.Errorf("connect: %w", err)
		return
	}
	served, err := protocol.Dispense(signalv1.PluginName)
	if err != nil {
		s.err = fmt.Errorf("connect: %w", err)
		return
	}
	s.remote = served.(remote) // controlPlugin returns no other type
}

// Prepare returns the spec with the environment and Lines that make its process a plugin. The first line of standard
// output is the handshake. Log records on standard error go to the session's logger. All other lines go to the spec's
// Lines. Output that go-plugin forwards goes there too.
//
// Call it once. The process may start at any time, or never.
func (s *Session) Prepare(spec supervise.Spec) supervise.Spec {
	s.mu.Lock()
	s.spec = spec
	s.mu.Unlock()
	spec.Env = slices.DeleteFunc(slices.Clone(spec.Env), isOurs)
	spec.Env = append(spec.Env, s.env...)
	handshakeSeen := false // used only in calls for standard output, which do not overlap
	spec.Lines = func(stream string, line []byte) {
		if stream == output.Stdout && !handshakeSeen {
			handshakeSeen = true
			s.link.receive(line)
			return
		}
		s.line(stream, line)
	}
	return spec
}

// isOurs reports whether an entry of an environment sets a variable of go-plugin, which only the session may set.
func isOurs(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch name {
	case signalv1.CookieKey, signalv1.FolderKey, plugin.EnvUnixSocketGroup,
		"PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", signalv1.TLSKey, "PLUGIN_MULTIPLEX_GRPC":
		return true
	}
	return false
}

// line passes on a line of output.
func (s *Session) line(stream string, line []byte) {
	if stream == output.Stderr {
		if r, ok := parseRecord(line); ok {
			r.write(s.log)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock() // go-plugin's lines and the process's lines are concurrent
	if s.spec.Lines != nil {
		s.spec.Lines(stream, line)
	}
}

// forwardedLine passes on a line that go-plugin forwarded. The launcher has not read it.
func (s *Session) forwardedLine(stream string, line []byte) {
	s.mu.Lock()
	tail := s.spec.Tail
	s.mu.Unlock()
	tail.Add(stream, line)
	s.line(stream, line)
}

// Describe waits for the handshake and requests the process's description. It returns ErrHandshake, ErrProtocol or
// errDescription for errors of the process, and ctx's cause if ctx ends. It takes at most 10 s.
func (s *Session) Describe(ctx context.Context) (Description, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := s.await(ctx); err != nil {
		return Description{}, fmt.Errorf("describe: %w", err)
	}
	answer, err := s.remote.control.Describe(ctx, &signalv1.DescribeRequest{})
	if err != nil {
		return Description{}, fmt.Errorf("describe: %w", s.callError(ctx, err))
	}
	return newDescription(answer, s.protocol)
}

// Health waits for the handshake and requests the process's health. It returns nil if the process serves. It takes at
// most 10 s.
func (s *Session) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := s.await(ctx); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	answer, err := s.remote.health.Check(ctx, &healthv1.HealthCheckRequest{Service: signalv1.HealthService})
	if err != nil {
		return fmt.Errorf("health: %w", s.callError(ctx, err))
	}
	if answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("health: the signal reports %s", answer.GetStatus())
	}
	return nil
}

func (s *Session) await(ctx context.Context) error {
	select {
	case <-s.connected:
		return s.err
	case <-ctx.Done():
		if err := s.link.refusal(); err != nil {
			return err // a process that ended after a wrong first line: the line is the cause
		}
		return fmt.Errorf("no handshake: %w", context.Cause(ctx))
	}
}

// callError replaces an error by the cause if ctx or the session has ended.
func (s *Session) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	select {
	case <-s.link.closed:
		return errClosed
	default:
		return err
	}
}

// Close releases the session's resources: goroutines, connections, the folder of the socket. It does not stop the
// process or wait for it, and returns soon in any case. The lines that the launcher reads are still passed on. The
// output that goes through go-plugin is no longer read: a process that writes much of it blocks.
func (s *Session) Close() {
	s.closing.Do(func() {
		s.link.close()
		s.connecting.Wait()
		close(s.link.ended) // before Kill, which otherwise sends a request to the plugin
		s.client.Kill()
		s.link.removeFolder()
		s.stdout.close()
		s.stderr.close()
	})
}
