package s3gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"
	"golang.org/x/sys/unix"
)

// errRunning: this process already runs a gateway.
var errRunning = errors.New("this process already runs an S3 gateway")

// oneGateway is held while a gateway runs. It guards process-wide state: the working directory, and versitygw's
// globals.
var oneGateway sync.Mutex

const (
	maxConnections = 1024
	maxParts       = 10_000 // of a multipart upload, as on AWS
)

// Config configures the server. All fields but Region and Buckets are required.
type Config struct {
	Dir       string // has the buckets; created if missing
	Addr      string // host:port to listen on; port 0 means a free port
	AccessKey string
	SecretKey string
	Region    string   // of the signatures that it accepts; empty: us-east-1
	Buckets   []string // created at the start if missing
	Log       *slog.Logger
	// Ready is called once with the listen address (host:port), when the server answers requests.
	Ready func(addr string)
}

// Validate returns every problem of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	for _, field := range []struct{ name, value string }{
		{"dir", c.Dir}, {"addr", c.Addr}, {"access key", c.AccessKey}, {"secret key", c.SecretKey},
	} {
		if field.value == "" {
			errs = append(errs, fmt.Errorf("s3 gateway: %s is empty", field.name))
		}
	}
	if c.Log == nil || c.Ready == nil {
		errs = append(errs, errors.New("s3 gateway: log and ready must be set"))
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends, then aborts requests in flight and returns nil within a second. The package comment
// lists its effects on the process.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return run(ctx, cfg, probeXattr)
}

// run is Run with the probe as an argument, so that tests can select the kind of metadata.
func run(ctx context.Context, cfg Config, probe func(dir string) error) error {
	if !oneGateway.TryLock() {
		return errRunning
	}
	defer oneGateway.Unlock()

	before, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("s3 gateway: %w", err)
	}
	store, err := openStore(cfg.Dir, probe)
	if err != nil {
		return fmt.Errorf("open the s3 gateway's folder %s: %w", cfg.Dir, err)
	}
	err = serve(ctx, cfg, store)
	store.Shutdown()
	return errors.Join(err, os.Chdir(before))
}

// openStore opens DIR/buckets as an object store. Its metadata is in extended attributes if the file system supports
// them, else in DIR/metadata.
func openStore(dir string, probe func(dir string) error) (*posix.Posix, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	buckets := filepath.Join(dir, "buckets")
	if err := os.MkdirAll(buckets, 0o700); err != nil {
		return nil, err
	}
	if probe(buckets) == nil {
		return posix.New(buckets, meta.XattrMeta{}, posix.PosixOpts{})
	}
	beside := filepath.Join(dir, "metadata")
	if err := os.MkdirAll(beside, 0o700); err != nil {
		return nil, err
	}
	sidecar, err := meta.NewSideCar(beside)
	if err != nil {
		return nil, err
	}
	// PosixOpts.SideCarDir stays empty: it only adds a line on standard output.
	return posix.New(buckets, sidecar, posix.PosixOpts{})
}

// probeXattr returns an error if dir does not accept user extended attributes.
func probeXattr(dir string) error {
	const name = "user.weir.probe"
	if err := unix.Setxattr(dir, name, []byte("1"), 0); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return unix.Removexattr(dir, name)
}

// serve runs versitygw behind a front until ctx ends or either fails.
func serve(ctx context.Context, cfg Config, store *posix.Posix) error {
	if err := makeBuckets(context.WithoutCancel(ctx), cfg, store); err != nil {
		return err
	}
	front, err := listen(cfg.Addr, "@weir-s3gateway-"+rand.Text())
	if err != nil {
		return fmt.Errorf("s3 gateway: %w", err)
	}
	// versitygw hangs if it is stopped during its start. So it is stopped after the front, which starts when
	// versitygw answers.
	gateway, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	bound := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		stop(front.run(ctx, gateway, bound, func() {
			cfg.Log.Info("s3 gateway is ready", "addr", front.addr(), "dir", cfg.Dir)
			cfg.Ready(front.addr())
		}))
	})
	onListen := sync.OnceFunc(func() { close(bound) })
	err = embedgw.RunVersityGW(gateway, keepOpen{store}, versityConfig(cfg, front.target, onListen))
	stop(err)
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("run the s3 gateway: %w", cmp.Or(err, context.Cause(gateway)))
}

// keepOpen leaves closing the store to its owner, because versitygw closes it only in some cases.
type keepOpen struct{ *posix.Posix }

func (keepOpen) Shutdown() {}

func versityConfig(cfg Config, socket string, ready func()) *embedgw.Config {
	return &embedgw.Config{
		RootUserAccess: cfg.AccessKey,
		RootUserSecret: cfg.SecretKey,
		Region:         cfg.Region,
		// Set, because versitygw's default prints a line on standard output.
		IAMService: auth.NewIAMServiceSingle(auth.Account{
			Access: cfg.AccessKey, Secret: cfg.SecretKey, Role: auth.RoleAdmin,
		}),
		Ports:             []string{socket},
		MaxConnections:    maxConnections,
		MaxRequests:       maxConnections,
		MultipartMaxParts: maxParts,
		KeepAlive:         true,
		Quiet:             true,
		S3Options:         []s3api.Option{s3api.WithOnListen(ready)},
	}
}

// makeBuckets creates missing buckets.
func makeBuckets(ctx context.Context, cfg Config, store *posix.Posix) error {
	acl, err := json.Marshal(auth.ACL{Owner: cfg.AccessKey})
	if err != nil {
		return fmt.Errorf("encode a bucket's owner: %w", err)
	}
	for _, name := range cfg.Buckets {
		if !validBucket(name) {
			return fmt.Errorf("make bucket %q: want 3 to 63 lower-case letters, digits and dashes", name)
		}
		if _, err := os.Stat(name); err == nil { // relative to the working directory, which is the store
			continue
		}
		err := store.CreateBucket(ctx, &s3.CreateBucketInput{
			Bucket:                    &name,
			CreateBucketConfiguration: &types.CreateBucketConfiguration{},
			ObjectOwnership:           types.ObjectOwnershipBucketOwnerEnforced,
		}, acl)
		if err != nil {
			return fmt.Errorf("make bucket %s: %w", name, err)
		}
	}
	return nil
}

// validBucket reports whether a name is valid in S3 and safe as the name of a folder.
func validBucket(name string) bool {
	if len(name) < 3 || len(name) > 63 || name[0] == '-' {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	return true
}
