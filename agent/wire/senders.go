package wire

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// Bounds of the messages of one node that wait in a receiver, and of those of all nodes.
const (
	maxNodeMessages = 512
	maxNodeBytes    = 1 << 20
	MaxWaiting      = 64 << 20 // bytes
)

// Limited returns a node that lost messages at an inbox, for the harmonizer.
func Limited(one bus.LostOfSender) any {
	n := message.NodeOfSender(one.Sender)
	return api.LimitedSender{Pool: n.Pool, Node: n.Name, Lost: one.Lost}
}

// NodeSenders returns the bounds of what waits of each node.
func NodeSenders() *bus.Senders {
	return &bus.Senders{Of: message.SenderOf, Largest: message.MaxNodeMessage, Messages: maxNodeMessages, Bytes: maxNodeBytes}
}
