package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const templateNames = "node.id, node.physicalid, node.name, node.zone, cluster.name, pool.name, attempt, reason"

func value(name string, in nodehealth.Input) (string, bool) {
	switch name {
	case "node.id", "node.name":
		return in.Node, true
	case "node.physicalid":
		return in.PhysicalID, true
	case "node.zone":
		return in.Zone, true
	case "cluster.name":
		return in.Cluster, true
	case "pool.name":
		return in.Pool, true
	case "attempt":
		return in.Attempt, true
	case "reason":
		return in.Reason, true
	}
	return "", false
}

// render replaces each {{ name }}. It does not scan the inserted values again.
func render(text string, in nodehealth.Input) (string, error) {
	var out strings.Builder
	for {
		before, after, opened := strings.Cut(text, "{{")
		out.WriteString(before)
		if !opened {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}}")
		if !closed {
			return "", errors.New("has a {{ without a }}")
		}
		v, ok := value(strings.TrimSpace(name), in)
		if !ok {
			return "", fmt.Errorf("unknown name {{ %.40s }}: want one of %s", strings.TrimSpace(name), templateNames)
		}
		out.WriteString(v)
		text = rest
	}
}

// renderAll renders the arguments of a command. The program name is not rendered.
func renderAll(argv []string, in nodehealth.Input) ([]string, error) {
	if len(argv) == 0 {
		return nil, errors.New("argv is empty")
	}
	out := []string{argv[0]}
	for _, text := range argv[1:] {
		arg, err := render(text, in)
		if err != nil {
			return nil, err
		}
		out = append(out, strings.ReplaceAll(arg, "\x00", ""))
	}
	return out, nil
}
