package harmonizer

import (
	"bytes"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Limits of what a startBuffer holds.
const (
	preludeLines = 10_000
	preludeBytes = 16 << 20
)

// startBuffer makes a record begin with the expected state, because a replay ignores a nudge
// of an unknown app. It buffers what is received before the first complete expected state. It
// stops buffering early if the source fails or the buffer is full.
type prelude struct {
	Record
	kept  []func()
	bytes int
	over  bool
}

// Message implements Record.
func (p *prelude) Message(subject, reply string, data []byte) {
	if !p.over {
		data = bytes.Clone(data)
	}
	p.keep(len(data), func() { p.Record.Message(subject, reply, data) })
}

// BusDown implements Record.
func (p *prelude) BusDown(down bool) { p.keep(0, func() { p.Record.BusDown(down) }) }

// Bulk implements Record.
func (p *prelude) Bulk(rows []message.App) {
	p.Record.Bulk(rows)
	p.end()
}

// BulkDown implements Record.
func (p *prelude) BulkDown(down bool) {
	p.end()
	p.Record.BulkDown(down)
}

func (p *prelude) keep(size int, write func()) {
	if p.over {
		write()
		return
	}
	p.kept = append(p.kept, write)
	if p.bytes += size; p.bytes > preludeBytes || len(p.kept) > preludeLines {
		p.end()
	}
}

func (p *prelude) end() {
	for _, write := range p.kept {
		write()
	}
	p.kept, p.over = nil, true
}
