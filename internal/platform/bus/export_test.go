package bus

// Embedded reports whether this process runs the server.
func (b *Bus) Embedded() bool { return b.server != nil }

// JoinTimeout is how long a start waits for a server that starts or stops elsewhere.
const JoinTimeout = joinTimeout
