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

// Config is what a session needs.
type Config struct {
	// Folder is where the folder of the process's socket is made, which goes with
	// Close: an absolute path of at most 69 bytes. Empty: os.TempDir.
	Folder string

	// Owner, if not zero, is the user id that the process runs as. The folder of its
	// socket belongs to it.
	Owner int

	// Log gets what the process logs, with its level; its attributes stand in the
	// group "attrs".
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

// Session is the control plane of one process, from before its start on. See the
// package comment.
type Session struct {
	log    *slog.Logger
	client *plugin.Client
	link   *attachment
	env    []string // what go-plugin wants the process to have
	stdout *lineWriter
	stderr *lineWriter

	connecting sync.WaitGroup
	connected  chan struct{}
	remote     remote // before connected is closed: not known
	protocol   int    // likewise
	err        error  // likewise; why there is no connection

	closing sync.Once

	mu   sync.Mutex
	spec supervise.Spec // as it was given to Prepare
}

// NewSession returns a session for a process that is not started yet.
func NewSession(config Config) (*Session, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("control session: %w", err)
	}
	s := &Session{log: config.Log, link: newAttachment(config.Owner), connected: make(chan struct{})}
	s.stdout = newLineWriter(func(line []byte) { s.synced(output.Stdout, line) })
	s.stderr = newLineWriter(func(line []byte) { s.synced(output.Stderr, line) })
	s.client = plugin.NewClient(s.clientConfig(config))
	s.connecting.Go(s.connect)
	select {
	case cmd := <-s.link.prepared:
		s.env = cmd.Env
		return s, nil
	case <-s.connected: // it ended before the process was any matter
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

// connect waits for the handshake, and makes the connection.
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
	s.remote = served.(remote) // controlPlugin makes nothing else
}

// Prepare returns the spec with what makes its process a plugin: the environment,
// and Lines. The first line of standard output is the handshake. Log records on
// standard error go to the session's logger, all other lines to the spec's Lines,
// and so does, from then on, what go-plugin passes on of the process's output.
//
// It is called once. The process may be started at any time, or never.
func (s *Session) Prepare(spec supervise.Spec) supervise.Spec {
	s.mu.Lock()
	s.spec = spec
	s.mu.Unlock()
	spec.Env = slices.DeleteFunc(slices.Clone(spec.Env), isOurs)
	spec.Env = append(spec.Env, s.env...)
	greeted := false // only of the calls for standard output, which follow each other
	spec.Lines = func(stream string, line []byte) {
		if stream == output.Stdout && !greeted {
			greeted = true
			s.link.hear(line)
			return
		}
		s.line(stream, line)
	}
	return spec
}

// isOurs reports whether an entry of an environment is of a variable that
// go-plugin reads, and that nobody but the session may set.
func isOurs(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch name {
	case signalv1.CookieKey, signalv1.FolderKey, plugin.EnvUnixSocketGroup,
		"PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", signalv1.TLSKey, "PLUGIN_MULTIPLEX_GRPC":
		return true
	}
	return false
}

// line passes a line of output on.
func (s *Session) line(stream string, line []byte) {
	if stream == output.Stderr {
		if r, ok := parseRecord(line); ok {
			r.write(s.log)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock() // what go-plugin passes on comes beside the process's own
	if s.spec.Lines != nil {
		s.spec.Lines(stream, line)
	}
}

// synced passes on a line that came by way of go-plugin, which the launcher has
// not seen.
func (s *Session) synced(stream string, line []byte) {
	s.mu.Lock()
	tail := s.spec.Tail
	s.mu.Unlock()
	tail.Add(stream, line)
	s.line(stream, line)
}

// Describe waits for the handshake, and asks the process what it is. It returns
// ErrHandshake, ErrProtocol or ErrDescription for what the process did wrong, the
// cause when ctx ends, and takes 10 s at most.
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

// Health waits for the handshake, and asks whether the process serves. Nil is
// yes; it takes 10 s at most.
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
		return fmt.Errorf("health: the signal says %s", answer.GetStatus())
	}
	return nil
}

func (s *Session) await(ctx context.Context) error {
	select {
	case <-s.connected:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("no handshake: %w", context.Cause(ctx))
	}
}

// callError makes of a status that stands for the end of ctx, or of the session,
// that.
func (s *Session) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	select {
	case <-s.link.closed:
		return ErrClosed
	default:
		return err
	}
}

// Close releases all that the session holds: goroutines, connections, the folder
// of the socket. It neither stops the process nor waits for it, and returns soon
// whatever that does. The lines that the launcher reads are passed on as before,
// but nobody takes any more what goes go-plugin's way: a process that lives on and
// prints much will block.
func (s *Session) Close() {
	s.closing.Do(func() {
		s.link.close()
		s.connecting.Wait()
		close(s.link.ended) // before Kill, which asks the plugin until then
		s.client.Kill()
		s.link.removeFolder()
		s.stdout.close()
		s.stderr.close()
	})
}
