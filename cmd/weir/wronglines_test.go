package main

import (
	"maps"
	"slices"
	"strings"
)

// wrongCommands are names that are no command.
func wrongCommands() []wrongInput {
	group := func(line, parent, near string) wrongInput {
		words := strings.Fields(line)
		return wrongInput{line, nil, 2, `has no command "` + words[len(words)-1] + `"`, parent + " has", near}
	}
	return []wrongInput{
		{"bogus", nil, 2, `has no command "bogus"`, "weir has", "Its commands: agent, app, "},
		group("ap", "weir", `did you mean "app"?`),
		group("stats", "weir", `did you mean "status"?`),
		group("staet", "weir", `did you mean "state"?`),
		group("harm", "weir", `did you mean "harmonizer"?`),
		group("app lst", "weir app", `did you mean "list"?`),
		group("pool grups", "weir pool", `did you mean "groups"?`),
		group("node statsu", "weir node", `did you mean "status"?`),
		group("release lits", "weir release", `did you mean "list"?`),
		group("pool pauze", "weir pool", `did you mean "pause"?`),
		group("delete", "weir", "weir app delete NAME"),
		group("node policy chek", "weir node policy", `did you mean "check"?`),
		group("metrics gte", "weir metrics", "Its commands: "),
		group("harmonizer rply", "weir harmonizer", `did you mean "replay"?`),
		group("config validat", "weir config", `did you mean "validate"?`),
		group("nats int", "weir nats", `did you mean "init"?`),
		group("state chek", "weir state", `did you mean "check"?`),
		group("completion fsh", "weir completion", "fish"),
		group("help bogus", "weir", "Its commands: "),
		group("help app lst", "weir app", `did you mean "list"?`),
	}
}

// wrongFlags are flags that a command does not have, or that lack a value.
func wrongFlags() []wrongInput {
	return []wrongInput{
		{"status --bogus", nil, 2, "unknown flag: --bogus", `"weir status --help"`, "Its flags: --output"},
		{"app set web --instnces 5", nil, 2, "unknown flag: --instnces", `"weir app set --help"`, "did you mean --instances?"},
		{"status --outptu json", nil, 2, "unknown flag: --outptu", `"weir status --help"`, "did you mean --output?"},
		{"status --tmeout 5s", nil, 2, "unknown flag: --tmeout", `"weir status --help"`, "did you mean --timeout?"},
		{"status -x", nil, 2, "unknown shorthand flag: 'x'", `"weir status --help"`, "Its flags: --output"},
		{"offset -2", nil, 2, "unknown shorthand flag: '2'", `"weir offset --help"`, `write "--" before a negative number`},
		{"status --output", nil, 2, "flag needs an argument: --output", "--output", `See "weir status --help"`},
		{"status --output jsno", nil, 2, `"jsno"`, "--output", "want table, json or yaml; did you mean json?"},
		{"app list --output names", nil, 2, `"names"`, "--output", "want table, json, yaml or name; did you mean name?"},
		{"metrics get --app web a --output yaml", nil, 2, `"yaml"`, "--output", "want table or json"},
		{"status --color blue", nil, 2, `"blue"`, "--color", "want auto, always or never"},
		{"status --log-level loud", nil, 2, `"loud"`, "--log-level", "want debug, info, warn or error"},
		{"status --log-format xml", nil, 2, `"xml"`, "--log-format", "want text or json"},
		{"node policy check --from heat", map[string]string{"local/default.yaml": ""}, 2, `"heat"`, "--from", "want weir or senlin"},
		{"pool target 5 --clear", nil, 2, "give a target, or --clear", "weir pool target", "give"},
		{"pool mark-stale red --all", nil, 2, "requires groups", "weir pool mark-stale", "or --all"},
		{"pool roll --stop --status", nil, 2, "two of", "--status", "give one of them"},
		{"pool roll --stop --dry-run", nil, 2, "two of", "--dry-run", "give one of them"},
		{"node recover n1 --all --wait 8h", nil, 2, "not both", "--all", `See "weir node recover --help"`},
		{"node recover --all", nil, 2, "one machine after the other", "--all", "such as --wait 8h"},
		{"state aside state", nil, 2, "--reason is missing", "--reason", "state why"},
		{"state accept apps", nil, 2, "--reason is missing", "--reason", "state why"},
		{"release yank shop/rps@v1", nil, 2, "--why is missing", "--why", "state the reason"},
		{"metrics put a=1", nil, 2, "--app is missing", "--app", "name the application"},
		{"metrics get a", nil, 2, "--app is missing", "--app", "name the application"},
		{"signal run --local /bin/true", nil, 2, "--metrics is missing", "--metrics", `"weir metrics get --output json" writes one`},
		{"pause --why " + strings.Repeat("x", 300), nil, 2, "has 300 bytes", "--why", "want at most 200"},
		{"bootstrap --print-plans", nil, 2, "unknown flag: --print-plans", `"weir bootstrap --help"`, "did you mean --print-plan?"},
		{"autoscaler --dryrun", nil, 2, "unknown flag: --dryrun", `"weir autoscaler --help"`, "did you mean --dry-run?"},
		{"nats init --dir DIR/x", nil, 2, "no servers yet", "the folder", "--servers n1,n2,n3"},
		{"nats init --dir DIR/x --servers n1 --pool web", nil, 2, "the cluster is missing", "cluster", "--cluster"},
		{"nats init --dir DIR/x --servers n1 --cluster prod", nil, 2, "no pools yet", "cluster prod", "--pool web,batch"},
		{"nats init --dir DIR/x --servers n1 --cluster prod --pool a.b", nil, 2, `pool "a.b"`, "pool", "want letters, digits"},
		{"nats init --dir DIR/x --servers n1 --cluster prod --pool web --agent i-01", nil, 2, `"i-01"`, "--agent", "want POOL/NODE"},
		{"nats init --dir DIR/x --servers n1 --cluster prod --pool web --publish repairs", nil, 2, `"repairs"`, "--publish", "want POOL/SUBJECT"},
		{"nats init --dir DIR/x --servers n1 --cluster prod --pool web --ca a", nil, 2, "belong together", "--ca", "NAME.crt and NAME.key"},
		{"nats streams --pool a.b", nil, 2, `pool "a.b"`, "pool", "want letters, digits"},
		{"nats init --dir DIR", map[string]string{"site.json": "{"}, 2, "site.json", "read", "restore it"},
		{"nats init --dir DIR --servers n1 --cluster prod --pool web", map[string]string{"ca.key": "x"}, 2, "has no site.json", "ca.key exists", "--force"},
		{"agent --grup red", nil, 2, "unknown flag: --grup", `"weir agent --help"`, "did you mean --group?"},
		{"placer a.b", nil, 2, `pool "a.b"`, "weir placer", "want letters, digits"},
		{"notify --config-dir DIR", map[string]string{"weir.yaml": ""}, 2, "section notify is missing", "weir.yaml", "add targets"},
		{"notify --config-dir DIR", map[string]string{"weir.yaml": "notify: [{name: a, url: \"ftp://x\", format: xml}]\n"}, 2, "notify[0].format", "weir.yaml:1", "want json or slack"},
		{"web --addr 0.0.0.0:9480", nil, 2, "which other hosts reach", "address of weir web", "set web.token_file"},
		{"web --config-dir DIR", map[string]string{"weir.yaml": "web: {addr: x, tls: {cert_file: a}}\n"}, 2, "web.addr", "weir.yaml:1", "want HOST:PORT"},
		{"placer web --pool api", nil, 2, "weir placer has pools as arguments", `"api" of --pool`, "give one of them"},
		{"signal bench --parm a=1 /bin/true", nil, 2, "unknown flag: --parm", `"weir signal bench --help"`, "did you mean --param?"},
	}
}

// wrongArguments are too many arguments, or too few.
func wrongArguments() (rows []wrongInput) {
	for line, fix := range map[string]string{
		"app set": "one application name", "app get web api": "one application name", "app delete": "one application name",
		"app explain": "one application name", "app crashes web api": "one application name", "app retry": "one application name",
		"app history": "one application name", "app restart": "one application name", "app start web api": "one application name", "app stop": "one application name",
		"app scale web": "the name of an application and a number of instances", "app rollback a b c": "the name of an application, and a version",
		"app logs": "one application name", "app status web api": "one application name",
		"pool drain": "the ids of nodes", "pool drain --pool web": "the ids of nodes", "pool mark-stale": "groups",
		"pool target a 1 2": "one weight, min or max, and a pool before it", "pool groups a b": "one pool", "pool roll a b": "one pool", "signal where": "one release",
		"pause a b": "one pool", "resume a b": "one pool", "explain a b": "one pool", "cost a b": "one pool", "events a b": "one pool", "diff": "two ticks", "diff a b c d": "two ticks", "pool diff a": "two ticks",
		"pool decide a b": "one pool", "plan a b": "one pool", "offset a 1 2": "one weight, and a pool before it",
		"pool status a b": "one pool", "pool pause a b": "one pool", "pool resume a b": "one pool", "pool accept a b": "one pool", "pool explain a b": "one pool", "pool plan a b": "one pool", "pool cost a b": "one pool",
		"pool offset a 1 2": "one weight", "status a b": "one pool", "signal ps a b": "one pool", "doctor a b": "one pool", "config validate a b": "one pool", "config show a b": "one pool", "config schema pool b": "one file",
		"node list a b":  "one pool",
		"signal restart": "one app", "signal logs": "one app", "signal shadow a b": "one app", "release forget": "one NAMESPACE/NAME@VERSION",
		"release publish shop/rps@v1": "NAMESPACE/NAME@VERSION and PATH", "release show": "one NAMESPACE/NAME@VERSION",
		"release verify a b": "one NAMESPACE/NAME@VERSION", "release fetch": "NAMESPACE/NAME@VERSION", "release yank": "one NAMESPACE/NAME@VERSION",
		"release list a b": "one namespace or namespace/name", "release keygen": "one file", "signal test": "the signal's program",
		"signal bench": "the signal's program", "signal run": "SIGNAL", "signal init": "one name",
		"metrics put --app web": "NAME=VALUE", "metrics get --app web": "the name of a metric",
		"harmonizer record": "one file", "harmonizer replay a b": "one file", "state accept": "one reader", "state aside": "one key",
		"state backup": "one file", "state restore a b": "one file",
		"decide a b": "one file", "node evidence": "one machine", "node recover": "at least one machine",
		"node policy check a b": "one file", "node replay": "one file", "calendar": "one file",
		"context use": "one context", "context show a b": "one context",
	} {
		rows = append(rows, wrongInput{line, nil, 2, "See \"weir " + commandOf(line), "weir " + commandOf(line), fix})
	}
	for _, path := range []string{
		"app list", "app apply", "app diff", "pool list", "state check", "version", "bootstrap", "autoscaler", "agent",
		"keep", "up", "metrics serve", "harmonizer release", "nats init", "context list",
	} {
		rows = append(rows, wrongInput{path + " extra", nil, 2, `takes no argument, but got "extra"`, "weir " + path, `See "weir ` + path + ` --help"`})
	}
	return rows
}

// commandOf returns the path of the command of a line.
func commandOf(line string) string {
	best := ""
	for _, path := range append(otherCommands(), slices.Sorted(maps.Keys(busCommands()))...) {
		if (line == path || strings.HasPrefix(line, path+" ")) && len(path) > len(best) {
			best = path
		}
	}
	return best
}

// wrongNames are names that no pool, app, node, signal or release can have, or has.
func wrongNames() []wrongInput {
	const rule = "want letters, digits, - and _, at most 63, beginning with a letter or digit"
	return []wrongInput{
		{"status --pool a·b", nil, 2, `"a b"`, "--pool", rule},
		{"pause web --pool api", nil, 2, "weir pause has two pools", `"web", and "api" of --pool`, "give one of them"},
		{"pool target web 5 --pool api", nil, 2, "weir pool target has two pools", `"web", and "api" of --pool`, "give one of them"},
		{"status --cluster ../x", nil, 2, `"../x"`, "--cluster", rule},
		{"pause a·b", nil, 2, `"a b"`, "pool", rule},
		{"app set a·b --command true", nil, 2, `"a b"`, "application name", rule},
		{"app get a.b", nil, 2, `"a.b"`, "application name", rule},
		{"app explain *", nil, 2, `"*"`, "application name", rule},
		{"app delete \x1b[2J", nil, 2, `"\x1b[2J"`, "application name", rule},
		{"app logs \xff\x00", nil, 2, `"\xff\x00"`, "application name", rule},
		{"app get wbe", nil, 2, "no such application: wbe", "did you mean web?", `"weir app list" shows all`},
		{"app delete apii", nil, 2, "no such application: apii", "did you mean api?", `"weir app list" shows all`},
		{"app set new --instances 2", nil, 2, "application new is new", "new", "--command"},
		{"pause othr", nil, 2, `no tick of pool "othr"`, "it has default", `"weir bootstrap --pool othr"`},
		{"metrics put --app ../x a=1", nil, 2, `"../x"`, "--app", rule},
		{"metrics import --app w,eb DIR/lines", map[string]string{"lines": "m value=1\n"}, 2, `"w,eb"`, "--app", "want letters, digits"},
		{"metrics import --app ../x DIR/lines", map[string]string{"lines": "m value=1\n"}, 2, `"../x"`, "--app", "want letters, digits"},
		{"metrics import --precision h DIR/lines", map[string]string{"lines": "m value=1\n"}, 2, `"h"`, "--precision", "want ns, us, ms or s"},
		{"metrics get --app w,eb a", nil, 2, `"w,eb"`, "--app", "want letters, digits"},
		{"metrics import --app ../x DIR/lines", map[string]string{"lines": "m value=1\n"}, 2, `"../x"`, "--app", "want letters, digits"},
		{"metrics get --app web --type x a", nil, 2, `"x"`, "--type", "want one of"},
		{"metrics get --app web --regex rq_[", nil, 2, "missing closing ]", "rq_[", "regular expression"},
		{"signal restart a·b", nil, 2, `"a b"`, "app", rule},
		{"signal logs \x1b[2J", nil, 2, `"\x1b[2J"`, "app", rule},
		{"signal shadow a/b", nil, 2, `"a/b"`, "app", rule},
		{"signal run best", nil, 2, "is built in", `"best"`, "want one of default"},
		{"signal init 9·x --sdk-version v1.0.0", nil, 2, `"9 x"`, "name", "want"},
		{"signal init rps --language ruby --sdk-version v1.0.0", nil, 2, `"ruby"`, "language", "want"},
		{"signal init rps --sdk-version latest", nil, 2, `"latest"`, "version", "want one like v1.2.3"},
		{"signal test DIR/none", nil, 2, "no such file", "DIR/none", "build it"},
		{"signal test DIR/text", map[string]string{"text": "x"}, 2, "is not an executable file", "DIR/text", "chmod +x"},
		{"release publish shop/rps DIR/x", nil, 2, `"shop/rps"`, "release", "want namespace/name@version"},
		{"release publish shop/rps@v1 DIR/none", nil, 2, "no such file", "DIR/none", "name a file or a folder"},
		{"release publish shop/rps@v1 /bin/true --platform linux", nil, 2, `"linux-"`, "platform", "want os-arch"},
		{"release publish shop/rps@v1 /bin/true --kind exe", nil, 2, `"exe"`, "--kind", "want plugin"},
		{"release show shop@v1", nil, 2, `"shop@v1"`, "release", "want namespace/name@version"},
		{"release verify shop/rps@v1..%/", nil, 2, "version", "release", "want letters"},
		{"release fetch ../rps@v1", nil, 2, `".."`, "namespace", "want up to 64 letters"},
		{"release forget shop/rps", nil, 2, `"shop/rps"`, "release", "want namespace/name@version"},
		{"release yank shop/r·ps@v1 --why x", nil, 2, `"r ps"`, "name", "want up to 64 letters"},
		{"signal where shop", nil, 2, `"shop"`, "release", "want NAMESPACE/NAME or NAMESPACE/NAME@VERSION"},
		{"signal where shop/rps@..", nil, 2, `".."`, "version", "want letters"},
		{"release list a/b/c", nil, 2, `"a/b/c"`, "a/b/c", "want NAMESPACE or NAMESPACE/NAME"},
		{"state backup DIR/x", map[string]string{"x": "text"}, 2, "exists", "DIR/x", "name a new file"},
		{"state restore DIR/none", nil, 2, "no such file", "DIR/none", "give a file of"},
		{"state restore --dry-run DIR/x", map[string]string{"x": strings.Repeat("text", 300)}, 1, "not a backup of weir", "DIR/x", "not a backup"},
		{"state accept apps --reason x", nil, 1, "reports no damage", "reader apps", `"weir state check"`},
		{"state accept app --reason x", nil, 2, `"app"`, "reader", "did you mean apps?"},
		{"state accept pool.a·b --reason x", nil, 2, `"pool.a b"`, "reader", "pool.NAME with the name of a pool"},
		{"app logs wbe", nil, 1, "has not ticked yet", "pool local/default", `"weir bootstrap"`},
		{"node check n1 n1", nil, 2, "is named twice", "node n1", "name it once"},
		{"node status n1 n1", nil, 2, "is named twice", "node n1", "name it once"},
		{"node history n1 n1", nil, 2, "is named twice", "node n1", "name it once"},
		{"node release " + strings.Repeat("n", 300), nil, 2, "want 1 to", "node", "bytes"},
		{"node resume n1 n1", nil, 2, "is named twice", "node n1", "name it once"},
		{"agent --id a·b --group red", nil, 2, "a b", "id", "want"},
	}
}

// wrongValues are durations, times, sizes, counts and weights.
func wrongValues() []wrongInput {
	const (
		duration = "want a duration such as 90s, 5m or 2h"
		when     = "want a time such as 03:10, 2026-01-02T03:10:00 or 2026-01-02T03:10:00Z, or how long ago, such as 90m or 7d"
	)
	return []wrongInput{
		{"explain --since -5m", nil, 2, "-5m", "--since", when},
		{"explain --since 0s", nil, 2, "0s", "--since", when},
		{"explain --at noon", nil, 2, `"noon"`, "time", "such as 03:10"},
		{"explain --at 03:10 --since 5m", nil, 2, "--at names one tick", "--since", "give one of them"},
		{"explain --changed", nil, 2, "--changed needs a range", "--changed", "--since 8h"},
		{"explain --why-not sideways", nil, 2, `"sideways"`, "--why-not", "want up or down"},
		{"explain --why-not up --since 1h", nil, 2, "explains one tick", "--why-not", "use --at"},
		{"explain yesterday", nil, 2, `"yesterday" is a time, not a pool`, "a pool of that name --pool yesterday", "type --since yesterday"},
		{"events 7d", nil, 2, `"7d" is a duration, not a pool`, "7d", "type --since 7d"},
		{"explain 03:10", nil, 2, `"03:10" is a time, not a pool`, "03:10", "type --since 03:10\nSee"},
		{"pause 1h", nil, 2, `"1h" is a duration, not a pool`, "1h", "type --for 1h"},
		{"pool pause 1h", nil, 2, `"1h" is a duration, not a pool`, "1h", "type --for 1h"},
		{"pause today", nil, 2, `"today" is a time, not a pool`, "today", "type a duration, such as --for 1h"},
		{"status yesterday", nil, 2, `"yesterday" is a time, not a pool`, "leave it out", `"weir explain --since yesterday" prints the past`},
		{"plan now", nil, 2, `"now" is a time, not a pool`, "now", "leave it out"},
		{"resume 2h", nil, 2, `"2h" is a duration, not a pool`, "2h", "leave it out"},
		{"doctor 90m", nil, 2, `"90m" is a duration, not a pool`, "90m", "leave it out"},
		{"offset 2 1h", nil, 2, `"1h" is a duration, not a weight`, "1h", "type --for 1h"},
		{"offset 1h", nil, 2, `"1h" is a duration, not a weight`, "1h", "type --for 1h"},
		{"pool target 5 30m", nil, 2, `"30m" is a duration, not a weight, min or max`, "30m", "type --for 30m"},
		{"pool target 1h 5", nil, 2, `"1h" is a duration, not a pool`, "1h", "type --for 1h"},
		{"node pause 1h", nil, 2, `"1h" is a duration, not a pool`, "1h", "type --for 1h"},
		{"node history yesterday", nil, 2, `"yesterday" is a time, not a pool`, "yesterday", "leave it out"},
		{"pool mark-stale 03:10", nil, 2, `"03:10" is a time, not a pool`, "03:10", "leave it out"},
		{"pool decide 24h --set scaling_limits.max_capacity=4", nil, 2, `"24h" is a duration, not a pool`, "24h", "type --since 24h"},
		{"diff noon last", nil, 2, `"noon"`, "time", "such as 03:10"},
		{"events", nil, 2, "give a range", "--follow", "--since 8h"},
		{"events --follow --kind helth", nil, 2, `"helth"`, "--kind", "did you mean health?"},
		{"decide --since 1h", nil, 2, "give the policy", "--set", "scaling_limits.max_capacity=40"},
		{"decide --since 1h --set autoscaling.setpoint=7", nil, 2, "7", "value of autoscaling.setpoint", "want"},
		{"pool decide --since 1h", nil, 2, "give the policy", "--set", "scaling_limits.max_capacity=40"},
		{"pool decide --since 1h --set autoscaling.tick=5s", nil, 2, `"autoscaling.tick"`, "--set", "autoscaling.setpoint"},
		{"pool decide --since 1h --set autoscaling.setpoint=7", nil, 2, "7", "value of autoscaling.setpoint", "want"},
		{"explain --since 5", nil, 2, `"5"`, "--since", when + "; did you mean 5s?"},
		{"explain --since 5min", nil, 2, `"5min"`, "--since", "did you mean 5m?"},
		{"explain --since 1h30", nil, 2, `"1h30"`, "--since", "did you mean 1h30m?"},
		{"explain --since tuesday", nil, 2, `"tuesday"`, "--since", when},
		{"pause --for 2days", nil, 2, `"2days"`, "--for", "did you mean 48h?"},
		{"pause --for -1h", nil, 2, "-1h", "--for", "want 0 to 8760h"},
		{"resume --for 1h", nil, 2, "unknown flag: --for", `"weir resume --help"`, "See"},
		{"offset 2 --for 99999h", nil, 2, "99999h", "--for", "want 0 to 8760h"},
		{"offset 2 --for 99999999999h", nil, 2, `"99999999999h"`, "--for", duration},
		{"pool target 3 --for x", nil, 2, `"x"`, "--for", duration},
		{"signal shadow --since 0s", nil, 2, "0s", "--since", when},
		{"metrics get --app web --range 0s a", nil, 2, "0s", "--range", "want more than 0"},
		{"node pause --for 0s", nil, 2, "0s", "--for", "want more than 0"},
		{"node recover n1 --wait -1h", nil, 2, "-1h0m0s", "recover", "want"},
		{"status --timeout 0s", nil, 2, "0s", "--timeout", "want more than 0, such as 10s"},
		{"status --timeout soon", nil, 2, `"soon"`, "--timeout", duration},
		{"metrics serve --config-dir DIR", map[string]string{"weir.yaml": "metrics: {embedded: {retention: 1m}}\n"}, 2, "is 1m0s", "metrics.embedded.retention", "want at least 2h"},
		{"metrics serve --retention 1m", nil, 2, "1m0s", "--retention", "at least 2h"},
		{"metrics put --app web --at tuesday a=1", nil, 2, `"tuesday"`, "--at", when},
		{"metrics put --app web --at 2026-01-32 a=1", nil, 2, `"2026-01-32"`, "--at", when},
		{"metrics put --app web --at 2026-13-01T00:00:00Z a=1", nil, 2, `"2026-13-01T00:00:00Z"`, "--at", "want a time such as"},
		{"metrics put --app web a=many", nil, 2, `"a=many"`, "a=many", "want NAME=VALUE with a finite number"},
		{"metrics put --app web a=NaN", nil, 2, `"a=NaN"`, "a=NaN", "want NAME=VALUE with a finite number"},
		{"metrics put --app web =1", nil, 2, `"=1"`, "=1", "want NAME=VALUE"},
		{"app set web --instances many", nil, 2, `"many"`, "--instances", "want a whole number"},
		{"app set web --instances 1.5", nil, 2, `"1.5"`, "--instances", "want a whole number"},
		{"app set web --instances -1", nil, 2, "is -1", "instances", "outside 0 to"},
		{"app set web --instances 99999999999999999999", nil, 2, `"99999999999999999999"`, "--instances", "want a whole number that is nearer to 0"},
		{"app set web --cpus lots", nil, 2, `"lots"`, "--cpus", "want a number"},
		{"app set web --cpus -1", nil, 2, "is -1", "cpus", "outside 0 to"},
		{"app set web --cpus NaN", nil, 2, "is NaN", "cpus", "outside 0 to"},
		{"app set web --mem 64MB", nil, 2, `"64MB"`, "--mem", "without a unit; did you mean 64?"},
		{"app set web --mem 2GB", nil, 2, `"2GB"`, "--mem", "without a unit; did you mean 2048?"},
		{"app set web --disk 1.5Ti", nil, 2, `"1.5Ti"`, "--disk", "without a unit; did you mean 1572864?"},
		{"app set web --instances 5x", nil, 2, `"5x"`, "--instances", "without a unit; did you mean 5?"},
		{"app set web --disk 1e400", nil, 2, `"1e400"`, "--disk", "want a number that is nearer to 0"},
		{"app set web --gpus one", nil, 2, `"one"`, "--gpus", "want a number"},
		{"app logs web --lines -4", nil, 2, "-4", "--lines", "want at least 0"},
		{"app logs web --index -1", nil, 2, "-1", "--index", "want at least 0"},
		{"app retry web --index one", nil, 2, `"one"`, "--index", "want a whole number"},
		{"signal logs web --lines -1", nil, 2, "-1", "--lines", "want at least 0"},
		{"offset many", nil, 2, `"many"`, "weight", "want a whole number"},
		{"offset web many", nil, 2, `"many"`, "weight", "want a whole number"},
		{"pool target web maxx", nil, 2, `"maxx"`, "target", "want a number of at least 0, min or max"},
		{"offset 1.5", nil, 2, `"1.5"`, "weight", "want a whole number"},
		{"pool target -- -1", nil, 2, `"-1"`, "target", "want a number of at least 0, min or max"},
		{"pool target nan", nil, 2, `"nan"`, "target", "want a number of at least 0, min or max"},
		{"pool target maxx", nil, 2, `"maxx"`, "target", "min or max"},
		{"signal test /bin/true --param a", nil, 2, `"a"`, "--param", "want NAME=VALUE"},
		{"signal test /bin/true --param a=[", nil, 2, "read the value as YAML", "--param a", "']' not found"},
		{"signal test /bin/true --param a=&x·[*x]", nil, 2, "anchors, aliases", "--param a", "write the value out"},
	}
}

// wrongPlaces are folders and addresses.
func wrongPlaces() []wrongInput {
	return []wrongInput{
		{"status --data DIR/open", map[string]string{"open": "!open"}, 1, "has mode 0777", "DIR/open", "chmod o-w"},
		{"status --data DIR/file", map[string]string{"file": "x"}, 2, "is not a folder", "DIR/file", "name another with --data"},
		{"status --data DIR/none", nil, 1, "nothing runs in data folder", "DIR/none", `start it with "weir up"`},
		{"status --nats nats://127.0.0.1:1", nil, 1, "no servers available", "nats://127.0.0.1:1", "start NATS there, or name another with --nats"},
		{"status --nats ://", nil, 2, "is not a URL", "--nats: server 1", "want nats://HOST:PORT"},
		{"up --config-dir DIR", nil, 2, "writes its own configuration", "weir up", "--pool-file"},
		{"up --metrics-addr 0.0.0.0:0", nil, 2, "other hosts can reach it", `"0.0.0.0:0"`, "listen on 127.0.0.1"},
		{"up --web-addr 0.0.0.0:0", nil, 2, "other hosts can reach it", `"0.0.0.0:0"`, "listen on 127.0.0.1"},
		{"up --web-addr none", nil, 2, `"none"`, "--web-addr", "want HOST:PORT such as 127.0.0.1:9480, or off"},
		{"bootstrap --admin-addr nonsense", map[string]string{"local/default.yaml": ""}, 2, `"nonsense"`, "--admin-addr", "want HOST:PORT such as 127.0.0.1:9463, or off"},
		{"agent --admin-addr 9467", nil, 2, `"9467"`, "--admin-addr", "did you mean 127.0.0.1:9467?"},
		{"autoscaler --admin-addr none", nil, 2, `"none"`, "--admin-addr", "did you mean off?"},
		{"auth --admin-addr 127.0.0.1:99999", nil, 2, `port "99999"`, "--admin-addr", "want HOST:PORT"},
		{"autoscaler --admin-addr :x", nil, 2, `port "x"`, "--admin-addr", "want HOST:PORT"},
		{"harmonizer --admin-addr 127.0.0.1:", nil, 2, `port ""`, "--admin-addr", "want HOST:PORT"},
		{"metrics serve --admin-addr nonsense", nil, 2, `"nonsense"`, "--admin-addr", "want HOST:PORT"},
		{"metrics serve --admin-addr 0.0.0.0:0", nil, 2, "which other hosts reach", "admin server", "set admin.token_file"},
		{"up --bucket-addr nonsense", nil, 2, `"nonsense"`, "bucket", "want HOST:PORT"},
		{"metrics serve --addr nonsense", nil, 2, `"nonsense"`, "address of the metrics", "want HOST:PORT"},
		{"metrics serve --addr 0.0.0.0:0", nil, 2, "other hosts can reach it", `"0.0.0.0:0"`, "listen on 127.0.0.1"},
		{"doctor --config-dir DIR", map[string]string{"weir.yaml": "nats: {servers: [\"nats://127.0.0.1:1\"]}\n"}, 2, "no pool is named", "DIR has no file of a pool", "weir doctor POOL --cluster CLUSTER"},
		{"doctor web --cluster prod --config-dir DIR", map[string]string{"weir.yaml": "nats: {servers: [\"nats://127.0.0.1:1\"]}\n"}, 1, "1 failed: nats server", "configuration", "only the host of bootstrap needs"},
		{"config validate --config-dir DIR/none", nil, 2, "no such file", "DIR/none/local/default.yaml", "give --config-dir, --cluster and --pool"},
		{"prices", nil, 2, "weir prices wants instance types, such as m5.large", "--read FILE", `See "weir prices --help"`},
		{"prices --read DIR/none.json", nil, 2, "no such file", "DIR/none.json", "name a file that exists"},
		{"prices --read DIR/spot.json", map[string]string{"spot.json": `{"SpotPriceHistory": [
			{"AvailabilityZone": "us-east-1a", "InstanceType": "m5.large", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.04", "Timestamp": "2026-03-01T00:00:00Z"},
			{"AvailabilityZone": "eu-west-1a", "InstanceType": "m5.large", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.05", "Timestamp": "2026-03-01T00:00:00Z"}]}`},
			2, "DIR/spot.json:3: its region is eu-west-1", "that of the prices before is us-east-1", "give --region, or leave out one of them"},
		{"prices m5.large --product Linux", nil, 2, `--product "Linux": want one of`, "Linux/UNIX", "SUSE Linux"},
		{"config validate", map[string]string{"weir.yaml": "prices: {table: prices.csv}\n", "prices.csv": "type,price\nm5.large,dear\n", "local/default.yaml": goodPoolFile}, 2, "DIR/prices.csv:2: price is", `"dear"`, "want a number"},
		{"config validate", map[string]string{"weir.yaml": "prices: {currency: USD}\n", "local/default.yaml": goodPoolFile}, 2, "DIR/weir.yaml:1: prices", "want a table or a spot_history", "prices"},
		{"simulate", nil, 2, "weir simulate wants one scenario file", "got 0 arguments", `See "weir simulate --help"`},
		{"simulate DIR/none.yaml", nil, 2, "no such file", "DIR/none.yaml", "name a file that exists"},
		{"simulate DIR/s.yaml", map[string]string{"s.yaml": "simulate: {pool: p.yaml}\ngroups: {a: {machin: {cpus: 1}}}\n"}, 2, "DIR/s.yaml:2: groups.a.machin: no such key", "demand", "did you mean machine?"},
		{"config validate", map[string]string{"local/default.yaml": goodPoolFile + "autoscaling: {tick: -1s}\n" + wrongWorkflow}, 2, "autoscaling.tick: is -1s", "DIR/local/default.yaml:8: health.recovery.actions[0].params.input.a: ", "want 100ms to "},
		{"config show --pool defualt", map[string]string{"local/default.yaml": "", "local/web.yaml": ""}, 2, "no such file", "DIR/local/defualt.yaml", "pools of cluster local: default, web"},
		{"config schema pol", nil, 2, "no such key", `schema of "pol"`, "did you mean pool?"},
		{"config validate --pool defualt", map[string]string{"local/default.yaml": "", "local/web.yaml": ""}, 2, "no such file", "DIR/local/defualt.yaml", "pools of cluster local: default, web"},
		{"bootstrap --pool defualt", map[string]string{"local/default.yaml": ""}, 2, "no such file", "DIR/local/defualt.yaml", "pools of cluster local: default"},
		{"autoscaler --pool defualt", map[string]string{"local/default.yaml": ""}, 2, "no such file", "DIR/local/defualt.yaml", "pools of cluster local: default"},
		{"auth --config-dir DIR", map[string]string{"weir.yaml": "nats: {servers: [\"nats://127.0.0.1:1\"]}\n"}, 2, "section auth is missing", "DIR/weir.yaml", "add issuer_key_file and verifiers"},
		{"release list", nil, 2, "aws.signals_bucket is missing", "weir.yaml", "name the bucket"},
		{"node policy check", nil, 2, "no such file", "DIR/local/default.yaml", "name a file that exists"},
		{"calendar DIR/none", nil, 2, "no such file", "DIR/none", "name a file that exists"},
		{"calendar DIR/c --days 0", map[string]string{"c": ""}, 2, "--days", "0", "want 1 to 400"},
		{"calendar DIR/c --from noon", map[string]string{"c": ""}, 2, `"noon"`, "--from", "want a date such as 2027-03-26"},
		{"harmonizer record DIR/there", map[string]string{"there": "x"}, 2, "is there already", "DIR/there", "--force"},
		{"release keygen DIR/key", map[string]string{"key": "x"}, 2, "file already exists", "DIR/key", "give another name"},
		{"signal init rps --sdk-version v1.0.0 --dir DIR/full", map[string]string{"full/signal.go": "x", "full/go.mod": "x"}, 2, "file already exists", "DIR/full", "choose another folder"},
	}
}
