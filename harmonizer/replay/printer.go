package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/weirkeeper/weirkeeper/api"
)

// The lines of the output. T is the virtual second.
type (
	messageOut struct {
		T       int64  `json:"t"`
		Subject string `json:"subj"`
		Message any    `json:"msg"`
	}
	eventOut struct {
		T     int64          `json:"t"`
		Event api.AppFinding `json:"event"`
	}
	dumpOut struct {
		T     int64               `json:"t"`
		Dump  string              `json:"dump"`
		State *api.AppExplanation `json:"state"` // null: the app is unknown
	}
)

// printer writes lines until a write fails.
type printer struct {
	buffer *bufio.Writer
	lines  *json.Encoder
	err    error // the first error
}

func newPrinter(out io.Writer) *printer {
	b := bufio.NewWriter(out)
	lines := json.NewEncoder(b)
	lines.SetEscapeHTML(false)
	return &printer{buffer: b, lines: lines}
}

func (p *printer) print(line any) {
	if p.err != nil {
		return
	}
	if err := p.lines.Encode(line); err != nil {
		p.err = fmt.Errorf("write: %w", err)
	}
}

func (p *printer) flush() error {
	if err := p.buffer.Flush(); err != nil && p.err == nil {
		p.err = fmt.Errorf("write: %w", err)
	}
	return p.err
}
