package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	yankedName = "yanked.json"
	maxYanked  = 4 << 10 // bytes of yanked.json
	maxWhy     = 1000    // bytes of a reason
)

// Yanked is the content of yanked.json: why and when a release was withdrawn.
type Yanked struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Validate requires a reason of one line, and a time.
func (y Yanked) Validate() error {
	if y.Why == "" || len(y.Why) > maxWhy || hasControl(y.Why) {
		return fmt.Errorf("reason %.100q: want one line of up to %d bytes", y.Why, maxWhy)
	}
	if year := y.At.Year(); year < 1 || year > 9999 {
		return fmt.Errorf("at: year %d", year)
	}
	return nil
}

func (y Yanked) err() error {
	if y.At.IsZero() {
		return fmt.Errorf("%w: %s", ErrYanked, y.Why)
	}
	return fmt.Errorf("%w since %s: %s", ErrYanked, y.At.Format(time.RFC3339), y.Why)
}

// decodeYanked decodes one yanked.json, or returns ErrCorrupt.
func decodeYanked(data []byte) (Yanked, error) { return decode[Yanked](data, maxYanked, "yank: ") }

// decode decodes exactly one valid value, or returns ErrCorrupt.
func decode[T interface{ Validate() error }](data []byte, limit int, what string) (T, error) {
	var v, zero T
	err := strictjson.Within(data, limit, &v)
	if err == nil {
		err = v.Validate()
	}
	if err != nil {
		return zero, fmt.Errorf("%w: %s%w", ErrCorrupt, what, err)
	}
	return v, nil
}

// Yank withdraws a release: it is no longer fetched, and no cache that has read the yank uses it. Running processes
// continue. A zero platform stands for all platforms of the release. Yank tries each platform. Its error is ErrNotFound
// if the release is not published, and ErrExists, with the first reason, if it was yanked before. It returns the
// platforms that it yanked.
func Yank(ctx context.Context, b Bucket, ref Ref, platform Platform, y Yanked) ([]Platform, error) {
	y.At = y.At.UTC()
	if err := errors.Join(ref.Validate(), y.Validate()); err != nil {
		return nil, fmt.Errorf("yank: %w", err)
	}
	platforms := []Platform{platform}
	if platform == (Platform{}) {
		var err error
		if platforms, err = platformsOf(ctx, b, ref); err != nil {
			return nil, fmt.Errorf("yank %s: %w", ref, err)
		}
	}
	var done []Platform
	var errs []error
	for _, p := range platforms {
		if err := yank(ctx, b, ref, p, y); err != nil {
			errs = append(errs, fmt.Errorf("yank %s for %s: %w", ref, p, err))
			continue
		}
		done = append(done, p)
	}
	return done, errors.Join(errs...)
}

func yank(ctx context.Context, b Bucket, ref Ref, platform Platform, y Yanked) error {
	if _, err := ReadManifest(ctx, b, ref, platform); errors.Is(err, ErrNotFound) {
		return err
	} else if err != nil && !errors.Is(err, ErrCorrupt) { // a corrupt release may be yanked
		return err
	}
	data, err := json.MarshalIndent(y, "", "  ")
	if err != nil {
		return err
	}
	err = writeBytes(ctx, b, key(ref, platform, yankedName), append(data, '\n'))
	if !errors.Is(err, ErrExists) {
		return err
	}
	before, readErr := readYanked(ctx, b, ref, platform, retryTimeout(defaultRetryTimeout))
	if readErr != nil || before == nil {
		return errors.Join(err, readErr)
	}
	if before.Why == y.Why && before.At.Equal(y.At) {
		return nil // a response was lost
	}
	return fmt.Errorf("%w: %w", ErrExists, before.err())
}

// platformsOf returns the platforms of a release, or ErrNotFound if it is not published.
func platformsOf(ctx context.Context, b Bucket, ref Ref) ([]Platform, error) {
	found, err := List(ctx, b, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var platforms []Platform
	for _, p := range found {
		if p.Ref == ref {
			platforms = append(platforms, p.Platform)
		}
	}
	if len(platforms) == 0 {
		return nil, notPublished(ctx, b, ref, Platform{}, found, fmt.Errorf("%s: %w", b.URL(ref.folder()), ErrNotFound))
	}
	return platforms, nil
}

// readYanked returns the yank of a release, or nil if it is not yanked. An unreadable yank counts as a yank.
func readYanked(ctx context.Context, b Bucket, ref Ref, platform Platform, wait retryTimeout) (*Yanked, error) {
	data, err := read(ctx, b, key(ref, platform, yankedName), maxYanked, wait)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		y, decodeErr := decodeYanked(data)
		if err = decodeErr; err == nil {
			return &y, nil
		}
	}
	if errors.Is(err, ErrCorrupt) {
		return &Yanked{Why: "(its " + yankedName + " cannot be read)"}, nil
	}
	return nil, err
}
