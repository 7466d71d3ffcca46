package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// subscribers are the methods of a NATS connection that subscribe without the checks of bus.Inbox.
var subscribers = []string{
	"Subscribe", "SubscribeSync", "ChanSubscribe", "QueueSubscribe", "QueueSubscribeSync", "QueueSubscribeSyncWithChan", "ChanQueueSubscribe",
}

// consumerMakers are the methods of JetStream that create a consumer, or return buckets whose methods do.
var consumerMakers = []string{
	"KeyValue", "CreateKeyValue", "UpdateKeyValue", "CreateOrUpdateKeyValue", "OrderedConsumer", "CreateConsumer", "UpdateConsumer", "CreateOrUpdateConsumer",
	"CreatePushConsumer", "UpdatePushConsumer", "CreateOrUpdatePushConsumer",
}

// consumers requires that nothing creates a consumer: no role may.
func consumers(s source) []string {
	if s.test || s.generated {
		return nil
	}
	var problems []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(consumerMakers, sel.Sel.Name) {
			problems = append(problems, fmt.Sprintf("%s: %s needs a consumer, which no role may create: use package kvbucket, changes or streams", s.at(sel), sel.Sel.Name))
		}
		return true
	})
	return problems
}

// subscriptions requires that only internal/platform/bus subscribes. Its Inbox refuses messages that the server was made to
// send; a receiver of its own would process them. Packages below it describe permissions, or answer the servers
// themselves (authcallout).
func subscriptions(s source) []string {
	if s.test || s.generated || s.dir == "internal/platform/bus" || strings.HasPrefix(s.dir, "internal/platform/bus/") {
		return nil
	}
	var problems []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if ok && slices.Contains(subscribers, sel.Sel.Name) && !ofRoles(sel) {
			problems = append(problems, fmt.Sprintf("%s: %s subscribes to NATS: use bus.Receive or bus.Replies, which refuse forged messages", s.at(sel), sel.Sel.Name))
		}
		return true
	})
	return problems
}

// ofRoles reports whether the selector is the direction of a permission, in package roles.
func ofRoles(sel *ast.SelectorExpr) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "roles"
}
