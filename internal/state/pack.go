package state

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// packFrom is the length in bytes above which pack compresses. Any NATS client can read shorter values.
const packFrom = 4 << 10

// pack compresses data if that makes it shorter, and reports whether it did.
func pack(data []byte) ([]byte, bool) {
	if len(data) <= packFrom {
		return data, false
	}
	var buf bytes.Buffer
	// A valid level, and a buffer that takes everything: no error is possible.
	w, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	_, _ = w.Write(data)
	_ = w.Close()
	if buf.Len() >= len(data) {
		return data, false
	}
	return buf.Bytes(), true
}

// unpack reverses pack. It refuses a result of more than limit bytes.
func unpack(data []byte, packed bool, limit int) ([]byte, error) {
	if packed {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, int64(limit)+1)); err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if len(data) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	return data, nil
}
