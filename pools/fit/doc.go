// Package fit computes where the copies of a pool fit: on which nodes that exist, on which further machines, and which nodes
// can be emptied.
//
//	answer := fit.Solve(fit.World{Nodes: nodes, Waiting: waiting, Question: q})
//
// Copies that wait are packed largest first: into the free room of the nodes, then on ordered machines, then on new ones. A
// new machine is of the kind that holds most per weight. Then the candidates are examined in their order: a node can be
// emptied if each of its copies fits on another node, beside the copies of all nodes that were chosen before. No copy is moved
// to a node that is chosen. So any subset of the chosen nodes can be emptied at the same time.
//
// Headroom is a number of places of one size that stay free. They are packed after the copies, and a node is emptied only if
// the others have as many free places wherever its copies go. They never change which machines the copies need. If they have no
// room while they avoid the candidates, they are packed by the room of all nodes.
//
// A copy may have limits: its port is free on the node, or the node has few other copies of its application.
// A scheduler with further ones, such as zones and labels of nodes, gives them as [Rules].
//
// The work is bounded. Copies and candidates beyond the bound are not examined: such a copy needs no machine, and such a
// candidate stays. A node is chosen only with a proof. First fit takes about log n steps with a tree over the rooms.
//
// The package is pure and may be used concurrently. It does not change or retain its arguments.
package fit
