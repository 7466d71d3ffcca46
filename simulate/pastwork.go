package simulate

import "time"

// pastWork is the recorded work, with the recorded tasks.
type pastWork struct {
	*Series
	past *past
}

// Step implements Work.
func (w *pastWork) Step(now time.Time, nodes []*Node) Load {
	load := w.Series.Step(now, nodes)
	var tasks map[string]int
	missing := map[string][]string{} // recorded nodes that the replay does not have, by group
	if t := w.past.decided(w.past.k); t != nil && w.past.exact {
		here := make(map[string]bool, len(nodes))
		for _, n := range nodes {
			here[n.ID] = true
		}
		tasks = t.tasks
		for group, all := range t.oldest {
			for _, id := range all {
				if !here[id] {
					missing[group] = append(missing[group], id)
				}
			}
		}
	}
	for _, n := range nodes {
		own, known := tasks[n.ID]
		of := missing[n.Group]
		switch {
		case !n.Cordoned.IsZero():
			if n.Tasks = 0; now.Before(w.past.end(n)) {
				n.Tasks = 1
			}
		case known:
			n.Tasks = own
		case len(of) > 0: // it stands for the oldest one that is missing
			n.Tasks, missing[n.Group] = tasks[of[0]], of[1:]
		}
	}
	return load
}
