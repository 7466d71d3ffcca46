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

// ErrRunning: this process runs a gateway already.
var ErrRunning = errors.New("this process runs an S3 gateway already")

// oneGateway is held while a gateway runs. It guards what belongs to the
// process and not to a value: the working directory, and versitygw's globals.
var oneGateway sync.Mutex

const (
	maxConnections = 1024
	maxParts       = 10_000 // of a multipart upload, as at AWS
)

// Config says what to serve, and where. All fields but Buckets are required.
type Config struct {
	Dir       string // holds the buckets; made if it does not exist
	Addr      string // host:port to listen on; port 0 takes a free one
	AccessKey string
	SecretKey string
	Buckets   []string // made at the start where they do not exist
	Log       *slog.Logger
	// Ready is called once, with the address that is listened on (host:port),
	// when requests are answered.
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

// Run serves until ctx ends, and then returns nil within a second: requests in
// flight are cut. See the package comment for what it does to the process.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return run(ctx, cfg, probeXattr)
}

// run is Run with the probe as an argument, so that either kind of metadata can
// be had on any file system.
func run(ctx context.Context, cfg Config, probe func(dir string) error) error {
	if !oneGateway.TryLock() {
		return ErrRunning
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

// openStore opens DIR/buckets as a store of objects, with their metadata in
// extended attributes where the file system has them, else in DIR/metadata.
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
	// PosixOpts.SideCarDir stays empty: all that it adds is a line on standard
	// output.
	return posix.New(buckets, sidecar, posix.PosixOpts{})
}

// probeXattr returns an error if user extended attributes cannot be written in
// dir.
func probeXattr(dir string) error {
	const name = "user.weir.probe"
	if err := unix.Setxattr(dir, name, []byte("1"), 0); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return unix.Removexattr(dir, name)
}

// serve runs versitygw behind a front of ours until ctx ends or either fails.
func serve(ctx context.Context, cfg Config, store *posix.Posix) error {
	if err := makeBuckets(context.WithoutCancel(ctx), cfg, store); err != nil {
		return err
	}
	front, err := listen(cfg.Addr, "@weir-s3gateway-"+rand.Text())
	if err != nil {
		return fmt.Errorf("s3 gateway: %w", err)
	}
	// versitygw hangs if it is stopped while it starts, so it ends when the
	// front has ended, which begins when versitygw answers.
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

// keepOpen leaves the closing of the store to its owner: versitygw closes it
// only on the ways out that it thinks of.
type keepOpen struct{ *posix.Posix }

func (keepOpen) Shutdown() {}

func versityConfig(cfg Config, socket string, ready func()) *embedgw.Config {
	return &embedgw.Config{
		RootUserAccess: cfg.AccessKey,
		RootUserSecret: cfg.SecretKey,
		// Given, because the one that versitygw would make announces itself on
		// standard output.
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

// makeBuckets makes the buckets that do not exist.
func makeBuckets(ctx context.Context, cfg Config, store *posix.Posix) error {
	acl, err := json.Marshal(auth.ACL{Owner: cfg.AccessKey})
	if err != nil {
		return fmt.Errorf("encode a bucket's owner: %w", err)
	}
	for _, name := range cfg.Buckets {
		if !validBucket(name) {
			return fmt.Errorf("make bucket %q: want 3 to 63 lower-case letters, digits and dashes", name)
		}
		if _, err := os.Stat(name); err == nil { // relative: the store is the working directory
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

// validBucket reports whether a name is one that S3 takes and that is safe as
// the name of a folder.
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
