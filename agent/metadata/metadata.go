// Package metadata reads what an EC2 machine is from its instance metadata service, by IMDSv2 only.
//
//	m, err := metadata.Read(ctx, metadata.Config{PoolTag: "weir:pool"})
//
// Tags are there if the launch template sets InstanceMetadataTags to enabled. All answers are bounded and checked. Read
// may be called concurrently.
//
// [Read] returns names and the type of the machine for "weir agent".
package metadata

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// timeout bounds a Read. Away from EC2 the address of the service usually does not answer.
const timeout = 5 * time.Second

// DefaultPoolTag is the default key of the tag that names cluster and pool.
const DefaultPoolTag = "weir:pool"

// Bounds of a request, as in the SDK. The service is on the machine's own host.
const (
	dialTimeout   = 250 * time.Millisecond
	headerTimeout = time.Second
)

// Bounds of the answers. AWS allows 50 tags of 128 characters, without those of AWS itself.
const (
	maxAnswer = 64 << 10 // bytes
	maxName   = 255      // bytes of an id, a zone and so on
)

// Config selects the service and the tag.
type Config struct {
	Endpoint string // empty: that of EC2
	PoolTag  string // key of the tag whose value is CLUSTER/POOL or JSON; empty: DefaultPoolTag
}

// Machine is what the service reports. Group, Cluster and Pool are empty if no tag has them.
type Machine struct {
	ID, Type, Zone, Region string
	Group                  string // Auto Scaling group, Spot Fleet request or EC2 Fleet
	Cluster, Pool          string
	NoTags                 bool // the metadata of this instance has no tags
}

// groupTags are the tags with which AWS marks the instances of a group.
func groupTags() []string {
	return []string{"aws:autoscaling:groupName", "aws:ec2spot:fleet-request-id", "aws:ec2:fleet-id"}
}

// Read reads the machine. It fails without IMDSv2, and ends within timeout.
func Read(ctx context.Context, c Config) (Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := bounded{awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.Proxy, t.ResponseHeaderTimeout = nil, headerTimeout })}
	s := service{imds.New(imds.Options{Endpoint: c.Endpoint, EnableFallback: aws.FalseTernary, HTTPClient: client})}
	m, err := s.read(ctx, cmp.Or(c.PoolTag, DefaultPoolTag))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no complete answer within %v; in a container the hop limit of the instance's metadata options must be 2: %w", timeout, err)
	}
	if err != nil {
		return Machine{}, fmt.Errorf("read the EC2 instance metadata: %w", err)
	}
	return m, nil
}

// service is the metadata service of this machine.
type service struct{ client *imds.Client }

func (s service) read(ctx context.Context, poolTag string) (m Machine, err error) {
	for _, one := range []struct {
		path string
		into *string
	}{
		{"instance-id", &m.ID}, {"instance-type", &m.Type}, {"placement/availability-zone", &m.Zone}, {"placement/region", &m.Region},
	} {
		if *one.into, err = s.getValue(ctx, one.path); err == nil {
			err = checkName(*one.into)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", one.path, err)
		}
	}
	list, err := s.getValue(ctx, "tags/instance")
	if absent(err) {
		m.NoTags = true
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("tags: %w", err)
	}
	keys := strings.Fields(list)
	for _, key := range groupTags() {
		if m.Group == "" && slices.Contains(keys, key) {
			if m.Group, err = s.tag(ctx, key); err != nil {
				return m, err
			}
		}
	}
	if slices.Contains(keys, poolTag) {
		value, err := s.tag(ctx, poolTag)
		if err != nil {
			return m, err
		}
		if m.Cluster, m.Pool, err = poolOf(value); err != nil {
			return m, fmt.Errorf("tag %s: %w", poolTag, err)
		}
	}
	return m, nil
}

// tag returns the value of a tag. A tag that was removed meanwhile is empty.
func (s service) tag(ctx context.Context, key string) (string, error) {
	value, err := s.getValue(ctx, "tags/instance/"+key)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("tag %s: %w", key, err)
	}
	return value, nil
}

// getValue returns one value.
func (s service) getValue(ctx context.Context, path string) (string, error) {
	out, err := s.client.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(out.Content)
	return strings.TrimSpace(string(data)), errors.Join(err, out.Content.Close())
}

// bounded is a client whose answers have at most maxAnswer bytes. The SDK reads each answer into memory.
type bounded struct{ client *awshttp.BuildableClient }

// Do implements imds.HTTPClient.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.client.Do(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// absent reports whether an error is the answer that there is no such value.
func absent(err error) bool {
	refused, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && refused.HTTPStatusCode() == http.StatusNotFound
}

// checkName returns an error for a text that is no name of AWS.
func checkName(text string) error {
	if text == "" || len(text) > maxName || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }) {
		return fmt.Errorf("the answer is %.40q: want a name", text)
	}
	return nil
}

// poolOf returns cluster and pool of a tag's value, which has the forms of a group's tag.
func poolOf(value string) (cluster, pool string, err error) {
	wrong := fmt.Errorf(`its value is %.80q: want CLUSTER/POOL, or {"cluster": CLUSTER, "pool": POOL}`, value)
	if !strings.HasPrefix(value, "{") {
		cluster, pool, ok := strings.Cut(value, "/")
		if !ok || cluster == "" || pool == "" {
			return "", "", wrong
		}
		return cluster, pool, nil
	}
	var v struct {
		Pool    string `json:"pool"`
		Cluster string `json:"cluster"`
		Paasta  string `json:"paasta_cluster"`
	}
	if json.Unmarshal([]byte(value), &v) != nil || v.Pool == "" || v.Cluster+v.Paasta == "" || v.Cluster != "" && v.Paasta != "" && v.Cluster != v.Paasta {
		return "", "", wrong
	}
	return cmp.Or(v.Paasta, v.Cluster), v.Pool, nil
}
