package aws

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	maxListed = 1000    // objects of one list in S3
	maxObject = 4 << 20 // bytes of one object
)

// folder returns the prefix of the keys of a list's objects.
func (s Selector) folder() string {
	if s.S3Prefix == "" {
		return ""
	}
	return strings.TrimRight(s.S3Prefix, "/") + "/"
}

// lists reads the lists in S3, and stores them. The result has, for each selector whose list can be read, the pool of each fleet.
func (f *finder) lists(ctx context.Context, l *listing) map[Selector]map[string]string {
	lists := make(map[Selector]map[string]string)
	for _, s := range f.cfg.Groups {
		if s.S3Bucket == "" {
			continue
		}
		list, err := f.list(ctx, s)
		if err != nil {
			l.addMissing(SpotFleet, err)
			continue
		}
		lists[s] = list
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.last, lists)
	return lists
}

// list reads one list: the pool of each fleet.
func (f *finder) list(ctx context.Context, s Selector) (map[string]string, error) {
	ctx, cancel := part(ctx)
	defer cancel()
	keys, err := f.listed(ctx, s)
	if err != nil {
		return nil, err
	}
	list := make(map[string]string)
	for _, key := range keys {
		fleets, err := f.object(ctx, s.S3Bucket, key)
		if err != nil {
			return nil, err
		}
		for id, pool := range fleets {
			if before, twice := list[id]; twice && before != pool {
				return nil, fmt.Errorf("%s in %s: %w: %s and %s", id, s, errTwoPools, before, pool)
			}
			list[id] = pool
		}
	}
	return list, nil
}

// listed returns the keys of a list's objects.
func (f *finder) listed(ctx context.Context, s Selector) ([]string, error) {
	var keys []string
	err := f.aws.pages(ctx, "s3:ListBucket", "s3://"+s.S3Bucket, func(token *string) (*string, error) {
		out, err := f.aws.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
			Bucket: &s.S3Bucket, Prefix: aws.String(s.folder()), ContinuationToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, object := range out.Contents {
			if key := aws.ToString(object.Key); key != "" && !strings.HasSuffix(key, "/") {
				keys = append(keys, key)
			}
		}
		if len(keys) > maxListed {
			return nil, fmt.Errorf("more than %d objects", maxListed)
		}
		return out.NextContinuationToken, nil
	})
	return keys, err
}

// object reads one object of a list.
func (f *finder) object(ctx context.Context, bucket, key string) (map[string]string, error) {
	var fleets map[string]string
	err := f.aws.read(ctx, "s3:GetObject", "s3://"+bucket+"/"+key, func() error {
		out, err := f.aws.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		data, err := io.ReadAll(io.LimitReader(out.Body, maxObject+1))
		if err != nil {
			return err
		}
		if len(data) > maxObject {
			return fmt.Errorf("larger than %d bytes", maxObject)
		}
		fleets, err = parseList(data)
		return err
	})
	return fleets, err
}
