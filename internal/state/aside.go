package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// UnreadableError: the value of a key cannot be read or decoded.
type UnreadableError struct {
	Key string
	Err error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("read %s: %v", e.Key, e.Err) }
func (e *UnreadableError) Unwrap() error { return e.Err }

// UnreadableKeys returns all UnreadableErrors in err.
func UnreadableKeys(err error) (all []*UnreadableError) {
	if one, ok := err.(*UnreadableError); ok {
		return []*UnreadableError{one}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, UnreadableKeys(one)...)
		}
	case interface{ Unwrap() error }:
		return UnreadableKeys(e.Unwrap())
	}
	return all
}

// OfPool describes the values that can be set aside, in a problem.
const OfPool = "a value of a pool"

// setAsidePrefix begins the keys of values that an operator has set aside: "aside.REVISION.KEY".
const setAsidePrefix = "aside."

var (
	// ErrNotAside: an operator cannot set values of that key aside.
	ErrNotAside = errors.New("want state, health or drain.NODE, or a key of any bucket with a value that does not come from its owner")
	// ErrReadable: the value can be decoded, so nothing waits for an operator.
	ErrReadable = errors.New("its value can be read")
	// ErrNoValue: the key has no value.
	ErrNoValue = errors.New("no such key")
)

// Aside has the reason and the user of a value that was set aside. It is the first line of the value at the aside key, in JSON. The
// value itself follows, unchanged.
type Aside struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Undecodable returns why an autoscaler cannot decode a value of its pool's bucket. It returns ErrNotAside for keys that no
// autoscaler must decode to start.
func Undecodable(key string, value []byte) error {
	node, drains := strings.CutPrefix(key, drainPrefix)
	switch {
	case drains && names.ValidKey(node):
	case key == stateKey, key == healthKey:
		node = ""
	default:
		return ErrNotAside
	}
	_, err := decodeValue(node, value)
	return err
}

// SetAside moves a value that its owner cannot use to an aside key of the same bucket, and returns that key: a value of a pool
// that its autoscaler cannot decode, or any value that another client made the server store. It deletes the value over the
// revision that it has read. The delete marker stays, so that no guard reports the key as lost. SetAside may be repeated after
// an error.
func SetAside(ctx context.Context, js jetstream.JetStream, bucket, key string, a Aside) (aside string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("set %s of bucket %s aside: %w", key, bucket, err)
	}
	if !names.ValidKey(key) {
		return fail(ErrNotAside)
	}
	b := kvbucket.New(js, bucket)
	e, err := b.Get(ctx, key)
	switch forged := errors.Is(err, kvbucket.ErrForged); {
	case err != nil && !forged:
		return fail(err)
	case !e.Found:
		return fail(ErrNoValue)
	case forged:
	default:
		switch err := Undecodable(key, e.Value); {
		case err == nil:
			return fail(ErrReadable)
		case errors.Is(err, ErrNotAside):
			return fail(err)
		}
	}
	head, err := json.Marshal(a)
	if err != nil {
		return fail(err)
	}
	aside = fmt.Sprintf("%s%d.%s", setAsidePrefix, e.Revision, key)
	if _, err := b.Put(ctx, aside, bytes.Join([][]byte{head, e.Value}, []byte("\n"))); err != nil {
		return fail(err)
	}
	if _, err := b.Delete(ctx, key, e.Revision); err != nil {
		return fail(err)
	}
	return aside, nil
}
