package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	maxBody  = 8 << 20 // bytes of a sealed value's body
	maxHead  = 256     // bytes of its first line
	maxEpoch = 1 << 62 // exclusive upper bound of valid epochs
)

// sealed is a value with its writer's epoch.
type sealed struct {
	epoch uint64
	body  []byte
}

// sealedHead is the first line of a sealed value.
type sealedHead struct {
	Epoch uint64 `json:"epoch"`
	Gzip  bool   `json:"gzip,omitempty"`
}

// encode returns the value as stored in the bucket.
func (s sealed) encode() ([]byte, error) {
	if len(s.body) > maxBody {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(s.body), maxBody)
	}
	body, packed := pack(s.body)
	head, err := json.Marshal(sealedHead{Epoch: s.epoch, Gzip: packed})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), body...), nil
}

// decodeSealed reverses encode.
func decodeSealed(value []byte) (sealed, error) {
	connection, rest, found := bytes.Cut(value, []byte("\n"))
	if !found {
		return sealed{}, errors.New("its first line with the epoch is missing")
	}
	var head sealedHead
	if err := strictjson.Within(connection, maxHead, &head); err != nil {
		return sealed{}, fmt.Errorf("its first line: %w", err)
	}
	if head.Epoch >= maxEpoch {
		return sealed{}, fmt.Errorf("its first line: epoch %d is out of range", head.Epoch)
	}
	body, err := unpack(rest, head.Gzip, maxBody)
	if err != nil {
		return sealed{}, err
	}
	return sealed{epoch: head.Epoch, body: body}, nil
}
