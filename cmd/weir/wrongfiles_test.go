package main

import (
	"maps"
	"strings"
	"unicode/utf16"
)

// goodPoolFile is a pool file without a mistake.
const goodPoolFile = `resource_groups: [{local: {name: red, min: 1, max: 2, machine: {cpus: 1, mem: 256, disk: 100}}}]
scaling_limits: {min_capacity: 1, max_capacity: 2, max_weight_to_add: 2, max_weight_to_remove: 2, max_tasks_to_kill: inf}
`

// wrongWorkflow is a health policy with a mistake that only the code of workflows finds.
const wrongWorkflow = `health:
  detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}
  recovery:
    actions:
      - {name: WORKFLOW, params: {kind: nats, subject: heal.it, input: {a: '{{ node.color }}'}}}
`

// kindOfFile is a file that nothing can be read from, or the wrong thing.
type kindOfFile struct{ name, content, what, fix string }

// notFiles are what no reader can open or read. Their errors are the same everywhere.
func notFiles() []kindOfFile {
	return []kindOfFile{
		{"pipe", "!pipe", "a pipe to which no process writes", "want a file"},
		{"folder", "!folder", "is a folder", "name a file"},
		{"loop", "!loop", "too many levels of symbolic links", "name another file"},
		{"memory", "!memory", "input/output error", "name another file"},
	}
}

func inUTF16(text string) string {
	out := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return string(out)
}

const elfBytes = "\x7fELF\x02\x01\x01\x00\xff\xfe\x80\x00"

// bomb is a YAML document that is huge once its aliases are written out.
func bomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		text.WriteString(strings.NewReplacer("N", string(rune('1'+i)), "M", string(rune('0'+i))).Replace("aN: &aN [*aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM]\n"))
	}
	return text.String()
}

// wrongYAML are texts that no reader of YAML accepts. KEY is a key that its file has.
func wrongYAML() []kindOfFile {
	return []kindOfFile{
		{"binary", elfBytes, "is not text in UTF-8", "save it as UTF-8"},
		{"UTF-16", inUTF16("KEY: 1\n"), "is not text in UTF-8", "save it as UTF-8"},
		{"NUL", "KEY: \"a\x00b\"\n", "has a NUL byte", "remove it"},
		{"huge", "KEY: " + strings.Repeat("x", 1<<20), "is longer than 1048576 bytes", "want a shorter file"},
		{"alias bomb", bomb(), "no such key", "(allowed: "},
		{"duplicate key", "KEY: {}\nKEY: {}\n", "is a duplicate", "remove one"},
		{"unknown key", "bogus: 1\n", "bogus: no such key", "(allowed: "},
		{"wrong type", "KEY: [[1]]\n", "KEY: is ", "want "},
		{"list", "- KEY\n", "is a list", "want "},
		{"cut", "KEY: {a: [1,\n", "sequence end token", "']' not found"},
		{"two documents", "KEY: {}\n---\nKEY: {}\n", "a second document begins", "want one in a file"},
	}
}

// wrongFiles are the files of all commands, each with all kinds of wrong files.
func wrongFiles() (rows []wrongInput) {
	pool := map[string]string{"local/default.yaml": goodPoolFile}
	yaml := func(line, file, key string, beside map[string]string, extra ...kindOfFile) {
		for _, k := range append(append(notFiles(), wrongYAML()...), extra...) {
			files := maps.Clone(beside)
			if files == nil {
				files = map[string]string{}
			}
			files[file] = strings.ReplaceAll(k.content, "KEY", key)
			rows = append(rows, wrongInput{line, files, 2, strings.ReplaceAll(k.what, "KEY", key), "DIR/" + file, strings.ReplaceAll(k.fix, "KEY", key)})
		}
	}
	empty := kindOfFile{"empty", "", "resource_groups: is missing", "a pool without groups has no machines"}
	yaml("config validate", "weir.yaml", "aws", pool)
	yaml("config validate", "local/default.yaml", "scaling_limits", nil, empty)
	yaml("config validate", "harmonizer.yaml", "intervals", pool)
	yaml("node policy check DIR/policy.yaml", "policy.yaml", "health", nil, kindOfFile{"empty", "", "detection.detection_modes: is missing", "want at least one of"})
	yaml("node replay --config DIR/policy.yaml DIR/events", "policy.yaml", "health", map[string]string{"events": ""})
	yaml("harmonizer replay --config DIR/h.yaml DIR/events", "h.yaml", "intervals", map[string]string{"events": ""})
	yaml("up --pool-file DIR/pool.yaml", "pool.yaml", "scaling_limits", nil, empty)
	yaml("bootstrap", "local/default.yaml", "scaling_limits", nil, empty)
	yaml("autoscaler", "weir.yaml", "aws", pool)
	yaml("release list", "weir.yaml", "aws", nil)
	for _, k := range append(notFiles(), []kindOfFile{
		{"empty", "", "has 0 documents", "want one"},
		{"binary", elfBytes, "is not text in UTF-8", "save it as UTF-8"},
		{"huge", strings.Repeat("x", 1<<20+1), "is longer than 262144 bytes", "want a shorter file"},
	}...) {
		rows = append(rows, wrongInput{"node policy check --from senlin DIR/s.yaml", map[string]string{"s.yaml": k.content}, 2, k.what, "DIR/s.yaml", k.fix})
	}
	for _, k := range append(notFiles(), []kindOfFile{
		{"empty", "", "is empty", "want a calendar with time_zone and periods"},
		{"binary", elfBytes, "is not text in UTF-8", "save it as UTF-8"},
		{"huge", strings.Repeat("x", 1<<20+1), "is longer than 1048576 bytes", "want a shorter file"},
		{"alias bomb", bomb(), "anchors, aliases, tags and the like are not read", "write the value out"},
		{"duplicate key", "periods: []\nperiods: []\n", "DIR/c.yaml:2: periods: is a duplicate, it is first on line 1", "remove one"},
		{"unknown key", "bogus: 1\n", "DIR/c.yaml:1: bogus: no such key", "(allowed: time_zone, dates, periods)"},
		{"list", "- periods\n", "is a list", "want a map with time_zone and periods"},
		{"two documents", "periods: []\n---\nperiods: []\n", "DIR/c.yaml:3: a second document begins", "want one in a file"},
	}...) {
		rows = append(rows, wrongInput{"calendar DIR/c.yaml", map[string]string{"c.yaml": k.content}, 2, k.what, "DIR/c.yaml", k.fix})
	}

	lines := func(line, file string, beside map[string]string, fix string, extra ...kindOfFile) {
		for _, k := range append(notFiles(), extra...) {
			files := maps.Clone(beside)
			if files == nil {
				files = map[string]string{}
			}
			files[file] = k.content
			if k.fix == "" {
				k.fix = fix
			}
			rows = append(rows, wrongInput{line, files, 2, k.what, "DIR/" + file, k.fix})
		}
	}
	json := func(list string) []kindOfFile {
		return []kindOfFile{
			{"binary", elfBytes + "\n", "1: ", ""}, {"UTF-16", inUTF16("{}\n") + "\n", "1: ", ""}, {"NUL", "{\"a\x00\": 1}\n", "1: ", ""},
			{"cut", "{\"a\": [\n", "1: ", ""}, {"no end", "{\"a\": [", "1: ", ""}, {"list", "[1]\n", list, ""},
			{"unknown key", "{\"bogus\": 1}\n", `"bogus"`, ""},
		}
	}
	lines("harmonizer replay DIR/events", "events", nil, "a line is one of", json("is not a JSON object")...)
	lines("node replay DIR/events", "events", nil, "weir node replay --help", json("is not a JSON object")...)
	lines("signal test /bin/true --metrics DIR/w", "w", nil, `want a line of "weir metrics get --output json"`, json("want an object, not an array")...)
	lines("signal bench /bin/true --metrics DIR/w", "w", nil, `want a line of "weir metrics get --output json"`)
	lines("decide DIR/case", "case", nil, "")
	for _, c := range []struct{ content, what, fix string }{
		{elfBytes, "invalid character", "want a JSON object"}, {"[1]\n", "not a", "want an object"}, {`{"polcy": {}}`, `no such key \"polcy\"`, "did you mean policy?"},
		{`{"policy": {}, "pool": {}, "signals": "x"}`, "signals", "want a list"}, {"{}", "policy is missing", "want {"},
	} { // each line has its answer, and the program goes on
		rows = append(rows, wrongInput{"decide DIR/case", map[string]string{"case": c.content + "\n"}, 2, c.what, `{"error":`, c.fix})
	}

	keys := []kindOfFile{
		{"empty", "", "minisign", "want "}, {"binary", elfBytes, "minisign", "want "}, {"UTF-16", inUTF16("untrusted comment"), "minisign", "want "},
		{"huge", strings.Repeat("x", 5<<10), "has more than 4096 bytes", "name the file of a minisign key"},
		{"none", "!none", "no such file", "name a file that exists"},
	}
	bucket := map[string]string{"weir.yaml": "aws: {signals_bucket: b, endpoint_url: 'http://127.0.0.1:1'}\n"}
	lines("release publish shop/rps@v1 /bin/true --sign-key DIR/key", "key", bucket, "", keys...)
	lines("release verify shop/rps@v1 --key DIR/key", "key", map[string]string{"weir.yaml": "aws: {signals_bucket: b}\n"}, "", keys...)
	lines("metrics serve --token-file DIR/token", "token", nil, "",
		kindOfFile{"empty", "", "is empty", "write a secret into it"}, kindOfFile{"huge", strings.Repeat("x", 65<<10), "has more than 65536 bytes", "name the file of a token"},
		kindOfFile{"none", "!none", "no such file", "name a file that exists"})
	return rows
}
