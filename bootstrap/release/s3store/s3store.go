package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
)

const maxKeys = 1000 // per list response

// Config configures a bucket.
type Config struct {
	Bucket    string // required
	Prefix    string // of every key, without slashes at its ends; may be empty
	Region    string // empty: the SDK's default
	Endpoint  string // http(s)://host[:port]; empty: AWS
	PathStyle bool   // endpoint/bucket instead of bucket.endpoint
	// Keys returns the keys for each request. If it is nil or returns empty keys, the SDK's default chain applies. If
	// it fails, the bucket counts as unavailable.
	Keys awssdk.Keys
}

// Validate returns every problem of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Bucket == "" || strings.ContainsAny(c.Bucket, "/ ") {
		errs = append(errs, fmt.Errorf("bucket %q: want the bare name", c.Bucket))
	}
	if strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/") || strings.Contains(c.Prefix, "//") {
		errs = append(errs, fmt.Errorf("bucket prefix %q: want no slash at its ends, nor two in a row", c.Prefix))
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			errs = append(errs, fmt.Errorf("bucket endpoint %q: want http(s)://host[:port]", c.Endpoint))
		}
	}
	return errors.Join(errs...)
}

var _ release.Bucket = (*Bucket)(nil)

// Bucket implements release.Bucket.
type Bucket struct {
	client *s3.Client
	name   string
	prefix string // empty, or ends with a slash

	pageSize int32 // keys per list response
}

// Open reads the SDK's configuration files and environment; it does not connect.
func Open(ctx context.Context, cfg Config) (*Bucket, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	loaded, err := awssdk.Load(ctx, awssdk.Config{
		Region: cfg.Region, Endpoint: cfg.Endpoint, Keys: cfg.Keys,
	}, awssdk.HTTPClient(), func() aws.Retryer { return aws.NopRetryer{} })
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", cfg.Bucket, err)
	}
	b := &Bucket{name: cfg.Bucket, pageSize: maxKeys, client: s3.NewFromConfig(loaded, func(o *s3.Options) { configure(o, cfg) })}
	if cfg.Prefix != "" {
		b.prefix = cfg.Prefix + "/"
	}
	return b, nil
}

func configure(o *s3.Options, cfg Config) {
	o.UsePathStyle = cfg.PathStyle
	if cfg.Endpoint != "" {
		o.BaseEndpoint = &cfg.Endpoint
	}
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	o.DisableLogOutputChecksumValidationSkipped = true
}

// URL implements release.Bucket.
func (b *Bucket) URL(key string) string { return "s3://" + b.name + "/" + b.prefix + key }

// Get implements release.Bucket. If from is 0, the reader also verifies the checksum that the store has for the object:
// a mismatch is release.ErrCorrupt.
func (b *Bucket) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: aws.String(b.prefix + key)}
	if from > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", from))
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, b.failure("get", key, err)
	}
	if from > 0 && !strings.HasPrefix(aws.ToString(out.ContentRange), fmt.Sprintf("bytes %d-", from)) {
		out.Body.Close()
		return nil, b.failure("get", key, fmt.Errorf("the store ignores the range %s", *in.Range))
	}
	return &body{ReadCloser: out.Body, bucket: b, key: key}, nil
}

// Stat implements release.Bucket.
func (b *Bucket) Stat(ctx context.Context, key string) (release.Stat, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: aws.String(b.prefix + key)})
	if err != nil {
		return release.Stat{}, b.failure("head", key, err)
	}
	stat := release.Stat{Size: aws.ToInt64(out.ContentLength), Tag: aws.ToString(out.ETag)}
	if stat.Tag == "" {
		return release.Stat{}, b.failure("head", key, errors.New("the store returned no ETag"))
	}
	return stat, nil
}

// Time returns the server's time, in whole seconds. It lists one key of the bucket.
func (b *Bucket) Time(ctx context.Context) (time.Time, error) {
	out, err := b.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &b.prefix, MaxKeys: new(int32(1))})
	if err != nil {
		return time.Time{}, b.failure("list", "", err)
	}
	at, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok || at.IsZero() {
		return time.Time{}, b.failure("list", "", errors.New("the store returned no time"))
	}
	return at, nil
}

// body classifies the errors of a transfer.
type body struct {
	io.ReadCloser
	bucket *Bucket
	key    string
}

func (r *body) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.bucket.brokenBody(r.key, err)
	}
	return n, err
}

// Put implements release.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: aws.String(b.prefix + key),
		Body: body, ContentLength: &size,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		IfNoneMatch:       aws.String("*"),
	})
	if err != nil {
		return b.failure("put", key, err)
	}
	return nil
}

// List implements release.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{
			Bucket: &b.name, Prefix: aws.String(b.prefix + prefix), MaxKeys: &b.pageSize,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", b.failure("list", prefix, err))
				return
			}
			for _, object := range page.Contents {
				if !yield(strings.TrimPrefix(aws.ToString(object.Key), b.prefix), nil) {
					return
				}
			}
		}
	}
}
