package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of a record's message.
const (
	encodingHeader = "Weir-Encoding"
	encodingGzip   = "gzip"
	partsHeader    = "Weir-Parts" // sequence numbers, separated by commas
	// MigratedHeader is the sequence number of a migrated message in its old stream, or the old bucket of a key.
	MigratedHeader = "Weir-Migrated-From"
	timeHeader     = "Weir-At" // when a migrated record was first written, RFC 3339

	maxParts = maxRecord/maxPart + 1
)

func setParts(h nats.Header, parts []uint64) {
	if len(parts) == 0 {
		return
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = strconv.FormatUint(p, 10)
	}
	h.Set(partsHeader, strings.Join(texts, ","))
}

// partsOf returns the rising sequence numbers of a record's parts. A record of one message has no parts.
func partsOf(h nats.Header) ([]uint64, error) {
	text := h.Get(partsHeader)
	if text == "" {
		return nil, nil
	}
	if strings.Count(text, ",") >= maxParts {
		return nil, fmt.Errorf("a record has more than %d parts", maxParts)
	}
	var parts []uint64
	for one := range strings.SplitSeq(text, ",") {
		p, err := strconv.ParseUint(one, 10, 64)
		if err != nil || p == 0 || len(parts) > 0 && p <= parts[len(parts)-1] {
			return nil, fmt.Errorf("%s %.80q: want rising sequence numbers", partsHeader, text)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// recordTime returns when a record was first written: stored, unless it was migrated.
func recordTime(h nats.Header, stored time.Time) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, h.Get(timeHeader)); err == nil {
		return at
	}
	return stored
}

// migratedFrom returns the sequence number of a migrated message in its old stream; 0: it was not migrated.
func migratedFrom(h nats.Header) uint64 {
	n, err := strconv.ParseUint(h.Get(MigratedHeader), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
