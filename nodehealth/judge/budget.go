package judge

// budget bounds how many nodes repairs take out of service at a time.
type budget struct {
	available Limit           // so many stay in service
	out       map[string]bool // nodes that a repair under way has out of service
}

// others returns how many nodes but this one are out of service.
func (b *budget) others(node string) int {
	if b.out[node] {
		return len(b.out) - 1
	}
	return len(b.out)
}

// most returns how many of the listed nodes may be out of service: at least one, or a
// small pool could never be repaired.
func (b *budget) most(listed int) int { return max(1, listed-b.available.keep(listed)) }

// room reports whether the node may be out of service beside the others.
func (b *budget) room(node string, listed int) bool { return b.others(node) < b.most(listed) }
