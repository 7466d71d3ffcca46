package bus

// Embedded reports whether this process runs the server.
func (b *Bus) Embedded() bool { return b.server != nil }
