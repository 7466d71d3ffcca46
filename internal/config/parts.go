package config

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// Parts returns the named parts of what a pool's decisions depend on, with a short text of each: its apps with their signals
// and metrics, its groups, each other key of the pool file by its path, and the default signal, the clusters and the region and
// bucket of the service file. Addresses and paths of a host are not parts: those of the next host differ. Values are complete with
// defaults and without secrets. Equal files have equal parts.
func Parts(s Service, p Pool) map[string]string {
	p.Autoscaling = effective(s, p)
	s, p = completeService(s), completePool(p)
	parts := map[string]string{}
	for _, g := range p.Groups {
		parts["group "+groupName(g)] = partText(chosen(g.Keys, g.Value))
	}
	for _, signal := range p.each() {
		if signal.Name != "" { // else the app uses the default signal
			parts["signal of app "+signal.App] = signal.Namespace + "/" + signal.Name + "@" + signal.Pin()
		}
		addMetrics(parts, "app "+signal.App, signal.Metrics)
		signal.Namespace, signal.Name, signal.Version, signal.BranchOrTag, signal.Metrics, signal.Raise = "", "", "", "", nil, nil
		parts["app "+signal.App] = partText(shownSection(reflect.ValueOf(signal), document{}, ""))
	}
	standby := s.AutoscaleSig
	parts["release of the default signal"] = standby.Name + "@" + standby.Pin()
	addMetrics(parts, "the default signal", standby.Metrics)
	standby.Name, standby.Version, standby.BranchOrTag, standby.Metrics = "", "", "", nil
	parts["the default signal"] = partText(shownSection(reflect.ValueOf(standby), document{}, ""))
	p.Groups, p.Signals = nil, nil
	addLeaves(parts, "", shownSection(reflect.ValueOf(p), document{}, ""))
	shared := Service{Clusters: s.Clusters, AWS: AWS{Region: s.AWS.Region, SignalsBucket: s.AWS.SignalsBucket, SignalsPrefix: s.AWS.SignalsPrefix}}
	addLeaves(parts, "weir.yaml ", shownSection(reflect.ValueOf(shared), document{}, ""))
	return parts
}

// HarmonizerParts returns each key of the harmonizer's file by its path, with a short text of its value, complete with defaults and
// without secrets. Intervals have no path, because they may be top-level keys too.
func HarmonizerParts(h Harmonizer) map[string]string {
	parts, named := map[string]string{}, map[string]string{}
	addLeaves(parts, "", shownSection(reflect.ValueOf(completeHarmonizer(h)), h.document, ""))
	for name, text := range parts {
		named[strings.TrimPrefix(name, "intervals.")] = text
	}
	return named
}

// addMetrics adds the metrics of a signal.
func addMetrics(parts map[string]string, of string, metrics []Metric) {
	for _, m := range metrics {
		quoted := strings.Trim(strconv.Quote(m.Name), `"`) // a pattern may have any character
		name := fmt.Sprintf("metric %s of %s", quoted, of)
		if _, twice := parts[name]; twice {
			name = fmt.Sprintf("metric %s %s of %s", m.Type, quoted, of)
		}
		parts[name] = partText(shownSection(reflect.ValueOf(m), document{}, ""))
	}
}

// groupName returns the name of a group, or the rule that finds groups.
func groupName(g Group) string {
	if named, ok := g.Value.(provider.Named); ok {
		return named.GroupName()
	}
	return partText(chosen(g.Keys, g.Value))
}

// addLeaves adds each value of a section by its path.
func addLeaves(parts map[string]string, path string, s Section) {
	for _, k := range s {
		switch value := k.Value.(type) {
		case Section:
			addLeaves(parts, path+k.Name+".", value)
		default:
			parts[path+k.Name] = partText(value)
		}
	}
}

// maxPart bounds the text of a part, in bytes.
const maxPart = 64

// partText returns a value as JSON, a long one with its beginning and a digest.
func partText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error() // the value of a valid file has a text
	}
	if len(text) <= maxPart {
		return strings.Trim(string(text), `"`)
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s... (%x)", strings.ToValidUTF8(string(text[:maxPart/2]), ""), sum[:4])
}
