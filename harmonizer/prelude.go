package harmonizer

import (
	"bytes"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// What a prelude keeps back at most.
const (
	preludeLines = 10_000
	preludeBytes = 16 << 20
)

// prelude has a record begin with the expected state: a replay makes nothing of a
// nudge whose app it does not know. What is heard before the first whole telling is
// kept back until then, or until that takes too long: the source fails, or too much
// was heard.
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
