package senlin

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each policy is converted to its golden file: the block, then the losses.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, losses, err := Convert(data)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			got.WriteString(roundTrip(t, p))
			for _, l := range losses {
				got.WriteString("# " + l.Path + ": " + l.What + "\n")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("converted (-want +got), -update writes it anew:\n%s", diff)
			}
		})
	}
}

// asYAML returns a policy as the "health" block of a pool file, only with the keys that are set.
func asYAML(p judge.Policy) ([]byte, error) {
	var block bytes.Buffer
	encoder := json.NewEncoder(&block)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p); err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	out, err := yaml.JSONToYAML(block.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	return out, nil
}

// roundTrip returns the policy's text, after checking that a strict reader returns the policy
// again.
func roundTrip(t *testing.T, p judge.Policy) string {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Errorf("it is not valid: %v", err)
	}
	text, err := asYAML(p)
	if err != nil {
		t.Fatal(err)
	}
	var again judge.Policy
	if err := yaml.UnmarshalWithOptions(text, &again, yaml.Strict()); err != nil {
		t.Fatalf("read again: %v\n%s", err, text)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s\n%s", diff, text)
	}
	return string(text)
}

// Every key of a policy is written.
func TestYAMLOfAWholePolicy(t *testing.T) {
	text, err := os.ReadFile("../judge/testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p judge.Policy
	if err := yaml.UnmarshalWithOptions(text, &p, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, p)
	roundTrip(t, p.WithDefaults())
}

// head is the beginning of a file; its lines are 1 to 3.
const head = "type: senlin.policy.health\nversion: 1.1\nproperties:\n"

func TestConvertRefuses(t *testing.T) {
	const detection = "  detection: {detection_modes: [{type: NODE_STATUS_POLLING}]}\n"
	for _, test := range []struct {
		name, file string
		line       int
		path, says string
	}{
		{"nothing", "", 0, "", "has 0 documents"},
		{"no map", "[1]", 1, "", "is a list: want a map of type, version"},
		{"another type", "type: senlin.policy.scaling\nversion: 1.0\nproperties: {}", 1, "type", `is "senlin.policy.scaling": want senlin.policy.health`},
		{"another version", "type: senlin.policy.health\nversion: 2.0\nproperties: {}", 2, "version", `want 1.0, 1.1, 1.2`},
		{"no type", "version: 1.0", 1, "type", "is missing"},
		{"no properties", "type: senlin.policy.health\nversion: 1.0", 1, "properties", "is missing"},
		{"no detection", head + "  recovery: {}", 3, "properties.detection", "is missing"},
		{"unknown key", head + detection + "  recovry: {}", 5, "properties.recovry", "no such key; did you mean recovery? (allowed: detection, recovery)"},
		{"unknown option", head + "  detection:\n    detection_modes:\n      - type: NODE_STATUS_POLL_URL\n        options:\n          poll_urls: x", 8,
			"properties.detection.detection_modes[0].options.poll_urls", "did you mean poll_url?"},
		{"key twice", head + detection + detection, 5, "properties.detection", "is a duplicate, first on line 4"},
		{"both forms", head + "  detection:\n    type: NODE_STATUS_POLLING\n    detection_modes: []", 6, "properties.detection.detection_modes", "conflicts with type"},
		{"no modes", head + "  detection: {interval: 60}", 4, "detection.detection_modes", "is missing: want at least one"},
		{"mode", head + "  detection:\n    detection_modes:\n      - type: AGENT_HEARTBEAT", 6, "properties.detection.detection_modes[0].type",
			`is "AGENT_HEARTBEAT": want LIFECYCLE_EVENTS, NODE_STATUS_POLLING`},
		{"mode twice", head + "  detection:\n    detection_modes:\n      - type: NODE_STATUS_POLLING\n      - type: NODE_STATUS_POLLING", 7,
			"detection.detection_modes[1].type", "want each type once"},
		{"octal interval", head + "  detection:\n    interval: 010\n    detection_modes: [{type: NODE_STATUS_POLLING}]", 5, "properties.detection.interval", `is 010, which YAML reads as 8: write 8, or 10 without the zero`},
		{"interval", head + "  detection:\n    interval: soon\n    detection_modes: [{type: NODE_STATUS_POLLING}]", 5, "properties.detection.interval", `is "soon": want a whole number`},
		{"short interval", head + "  detection:\n    interval: 2\n    detection_modes: [{type: NODE_STATUS_POLLING}]", 5, "detection.interval", "want 5s to 1h0m0s"},
		{"no URL", head + "  detection:\n    detection_modes:\n      - type: NODE_STATUS_POLL_URL", 6, "detection.detection_modes[0].options.poll_url", "want a URL"},
		{"pattern", head + "  detection:\n    detection_modes:\n      - type: NODE_STATUS_POLL_URL\n        options:\n          poll_url: http://h/\n          poll_url_healthy_response: '(?=ok)'", 9,
			"properties.detection.detection_modes[0].options.poll_url_healthy_response", "not a valid regular expression here"},
		{"verify", head + "  detection:\n    detection_modes:\n      - type: NODE_STATUS_POLL_URL\n        options: {poll_url: 'http://h/', poll_url_ssl_verify: 2}", 7,
			"properties.detection.detection_modes[0].options.poll_url_ssl_verify", "is 2: want true or false"},
		{"action", head + detection + "  recovery:\n    actions:\n      - name: EXPLODE", 7, "properties.recovery.actions[0].name", "want REBOOT, REBUILD, RECREATE, WORKFLOW, MISTRAL_WORKFLOW"},
		{"reboot", head + detection + "  recovery:\n    actions:\n      - name: REBOOT\n        params:\n          type: gentle", 9, "properties.recovery.actions[0].params.type", `is "gentle": want soft, hard`},
		{"workflow", head + detection + "  recovery:\n    actions:\n      - name: WORKFLOW", 7, "properties.recovery.actions[0].params.workflow_name", "is missing"},
		{"workflow of another type", head + detection + "  recovery:\n    actions:\n      - name: mend\n        type: ANSIBLE", 8, "properties.recovery.actions[0].type", `is "ANSIBLE": want MISTRAL_WORKFLOW`},
		{"fencing", head + detection + "  recovery:\n    fencing:\n      - STORAGE", 7, "properties.recovery.fencing[0]", `is "STORAGE": want COMPUTE`},
		{"delete timeout", head + detection + "  recovery:\n    node_delete_timeout: 0", 6, "recovery.node_delete_timeout", "is 0s: want 1s"},
		{"alias", head + "  detection: &a {}\n  recovery: *a", 4, "", "write the value out"},
		{"bad YAML", "type: [", 1, "", ""},
		{"two documents", head + detection + "---\na: 1", 0, "", "has 2 documents"},
		{"no text", "\xff", 0, "", "UTF-8"},
		{"too long", strings.Repeat("#", maxFile+1), 0, "", "longer than"},
		{"too deep", strings.Repeat("[", 100), 1, "", "deeper than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, losses, err := Convert([]byte(test.file))
			p, ok := errors.AsType[*strictyaml.Problem](err)
			if !ok || p.Line != test.line || p.Key != test.path || !strings.Contains(p.What, test.says) || losses != nil {
				t.Errorf("Convert = %v, want line %d: %s: ...%s...", err, test.line, test.path, test.says)
			}
		})
	}
}

// All mistakes are reported at once, in the order of their lines.
func TestConvertTellsAll(t *testing.T) {
	_, _, err := Convert([]byte(head + "  recovery: {fencing: [STORAGE]}\n  detection: {interval: x, detection_modes: [{type: A}]}\nmore: 1"))
	ps, ok := errors.AsType[strictyaml.Problems](err)
	if !ok || len(ps) != 4 || ps[0].Line != 4 || ps[3].Line != 6 {
		t.Errorf("Convert = %v", err)
	}
}

func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("type: senlin.policy.health\nversion: 1.1\nproperties: {detection: {detection_modes: [{}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, losses, err := Convert(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if len(losses) == 0 {
			t.Error("nothing is lost")
		}
		roundTrip(t, p)
	})
}
