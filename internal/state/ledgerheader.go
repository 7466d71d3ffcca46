package state

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// Headers of a record's message.
const (
	encodingHeader = "Weir-Encoding"
	encodingGzip   = "gzip"
	partsHeader    = "Weir-Parts" // sequence numbers, separated by commas
	sumHeader      = "Weir-Sum"   // bytes written for the pool so far, this record included

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

func setSum(h nats.Header, sum int64) { h.Set(sumHeader, strconv.FormatInt(sum, 10)) }

// sumOf returns 0 for a record of a version without sums.
func sumOf(h nats.Header) int64 {
	sum, err := strconv.ParseInt(h.Get(sumHeader), 10, 64)
	if err != nil || sum < 0 || sum > 1<<60 {
		return 0
	}
	return sum
}
