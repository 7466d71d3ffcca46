package harmonizer

import (
	"bytes"

	"github.com/weirkeeper/weirkeeper/api"
)

// Limits of what a startBuffer holds.
const (
	startBufferLines = 10_000
	startBufferBytes = 16 << 20
)

// startBuffer makes a record begin with the expected state, because a replay ignores a nudge
// of an unknown app. It buffers what is received before the first complete expected state. It
// stops buffering early if the source fails or the buffer is full.
type startBuffer struct {
	Record
	buffered []func()
	bytes    int
	over     bool
}

// Message implements Record.
func (p *startBuffer) Message(subject, reply string, data []byte) {
	if !p.over {
		data = bytes.Clone(data)
	}
	p.writeOrBuffer(len(data), func() { p.Record.Message(subject, reply, data) })
}

// BusDown implements Record.
func (p *startBuffer) BusDown(down bool) { p.writeOrBuffer(0, func() { p.Record.BusDown(down) }) }

// Bulk implements Record.
func (p *startBuffer) Bulk(rows []api.App) {
	p.Record.Bulk(rows)
	p.flush()
}

// BulkDown implements Record.
func (p *startBuffer) BulkDown(down bool) {
	p.flush()
	p.Record.BulkDown(down)
}

func (p *startBuffer) writeOrBuffer(size int, write func()) {
	if p.over {
		write()
		return
	}
	p.buffered = append(p.buffered, write)
	if p.bytes += size; p.bytes > startBufferBytes || len(p.buffered) > startBufferLines {
		p.flush()
	}
}

func (p *startBuffer) flush() {
	for _, write := range p.buffered {
		write()
	}
	p.buffered, p.over = nil, true
}
