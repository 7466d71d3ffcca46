package arch

import (
	"path"
	"slices"
	"strings"
)

const module = "github.com/weirkeeper/weirkeeper"

// floor is a layer of the module. Imports point to lower floors only.
type floor int

const (
	ground     floor = iota // values and small tools
	types                   // what crosses a process
	vocabulary              // shared types and ports
	rules                   // pure rules
	machinery               // parts of loops: processes, records
	loop                    // decides when to act
	services                // below the adapters: the bus, its buckets, telemetry
	contracts               // how providers, stores and agents describe themselves
	adapter                 // one technology each
	files                   // the files of an installation
	past                    // a tick of a pool
	pages                   // for people
	daemons                 // composes the processes
	commands                // what people type
	tools                   // small tools of tests
	support                 // servers and fakes for tests
	program                 // not imported
)

func (f floor) String() string {
	return [...]string{"ground", "types", "vocabulary", "rules", "machinery", "loop", "services", "contracts", "adapter", "files",
		"past", "pages", "daemons", "commands", "tools", "support", "program"}[f]
}

// floors has the packages of a room by floor: names of folders below the room, separated by spaces. "." is the room
// itself, "..." all folders below it, and "x/..." x with all folders below it. The longest name that fits counts.
type floors map[floor]string

// room is one folder of the module. Its packages may import lower floors, and packages of the same room on their floor.
type room struct {
	path   string
	floors floors
}

var house = []room{
	{"resource", floors{ground: "."}},
	{"proto", floors{ground: "..."}},
	{"api", floors{types: "."}},
	{"sigproto", floors{types: "."}},
	{"internal/platform", floors{ground: "...", services: "awssdk bus/... call changes diskspace identity/... integrity kvbucket netguard notify s3gateway streams telemetry webhook",
		support: "bus/bustest identity/identitytest metric/metrictest promtest s3gateway/s3test telemetry/otlptest", tools: "await children jsonfault smalldisk testprograms testrun testsize"}},
	{"metrics", floors{vocabulary: ".", rules: "record", machinery: "windows lineprotocol backfill", contracts: "store source", adapter: "...", support: "metricstest source/sourcetest"}},
	{"pools", floors{vocabulary: ". disruption liveness", rules: "plan fit rotate", machinery: "drain", contracts: "provider", adapter: "...", support: "pooltest/... aws/awstest local/localtest"}},
	{"nodehealth", floors{rules: "judge", machinery: "replay senlin", loop: ".", adapter: "events probes workflow"}},
	{"harmonizer", floors{vocabulary: "message", rules: "wheel queue known apps cloudfoundry cloudfoundry/shadow cloudfoundry/report", machinery: "replay", loop: ".", adapter: "cloudfoundry/bulkapi cloudfoundry/varz natsbus rowfile", support: "cloudfoundry/bulkapi/bulktest"}},
	{"bootstrap", floors{vocabulary: "release release/keyfile release/shareddir", machinery: "supervise/... control", loop: ".", adapter: "release/s3store"}},
	{"signals", floors{ground: "python", rules: "calendar forecast", loop: ". builtin plugin signaltest"}},
	{"autoscaler", floors{rules: "decide shadow", machinery: "resolve snapshot ask", loop: ". apply"}},
	{"placer", floors{loop: ".", support: "schedulertest"}},
	{"agent", floors{contracts: ". wire metadata measure readiness", support: "forgertest"}},
	{"internal/price", floors{rules: ".", machinery: "spending"}},
	{"internal/state", floors{adapter: "..."}},
	{"internal/config", floors{files: "..."}},
	{"simulate", floors{past: "."}},
	{"internal/history", floors{past: "..."}},
	{"internal/ui", floors{pages: "...", support: "web/webtest"}},
	{"internal/daemon", floors{daemons: "..."}},
	{"internal/cli", floors{commands: "..."}},
	{"internal/arch", floors{support: "."}},
	{"cmd", floors{program: "..."}},
	{"examples", floors{program: "..."}},
	{"docs/record", floors{program: "."}},
	{"deploy", floors{program: "..."}},
}

// pure lists the packages with rules alone: only the standard packages in pureImports, without a clock.
var pure = []string{
	"api", "autoscaler/decide", "autoscaler/resolve", "autoscaler/shadow", "harmonizer/apps", "harmonizer/known", "harmonizer/queue", "harmonizer/cloudfoundry/report",
	"harmonizer/cloudfoundry/shadow", "harmonizer/wheel", "internal/platform/bus/natsconf", "internal/platform/bus/roles", "internal/platform/names", "internal/platform/prose", "internal/price", "internal/price/spending", "internal/ui/web/plot",
	"internal/ui/web/series", "internal/history/condition", "nodehealth/judge", "pools/disruption", "pools/fit", "pools/liveness", "pools/plan",
	"pools/rotate", "signals/calendar", "signals/forecast",
}

// limit restricts the imports of packages beyond their floors. Of the house, the packages of from import only those of
// only; or no other package imports those of to, but those of by.
type limit struct {
	from, only []string
	to, by     []string
	why        string
}

var limits = []limit{
	{from: []string{"examples/..."}, only: []string{"resource", "signals/...", "api", "pools", "pools/cloud", "pools/grpc/externalgrpc", "pools/provider", "nodehealth/judge",
		"internal/platform/strictyaml"}, why: "an example imports what its reader may import"},
	{from: []string{"autoscaler/...", "harmonizer", "nodehealth", "placer", "pools/plan", "pools/drain"}, only: []string{
		"resource", "api", "sigproto", "metrics", "pools", "pools/disruption", "pools/liveness", "pools/drain", "pools/fit", "pools/plan", "pools/rotate", "nodehealth/judge", "harmonizer/...", "autoscaler/...",
		"signals/calendar", "internal/platform/metric", "internal/platform/names", "internal/platform/prose", "internal/platform/retry", "internal/platform/trace"}, why: "a loop reaches the world through its ports"},
	{to: []string{"internal/platform/bus/natsserver", "metrics/embedded/tsdbstore", "internal/platform/s3gateway"},
		by: []string{"internal/cli/localworld/...", "internal/platform/s3gateway/s3test", "pools/local/localtest"}, why: "the program weir has no server of its own: only weir-local has"},
	{from: []string{"cmd/..."}, only: []string{"internal/cli", "internal/cli/localworld"}, why: "a program calls one function"},
	{to: []string{"internal/cli/app", "internal/cli/calendar", "internal/cli/cluster", "internal/cli/daemons", "internal/cli/node", "internal/cli/pool", "internal/cli/prices", "internal/cli/releases", "internal/cli/signal", "internal/cli/simulation", "internal/cli/stored"},
		by: []string{"internal/cli"}, why: "nouns of the command line do not import each other"},
	{to: []string{"bootstrap/supervise/...", "bootstrap/control"}, by: []string{"bootstrap/...", "agent", "pools/local/...", "nodehealth/workflow", "internal/daemon/...", "internal/cli/localworld/...", "internal/cli/doctor", "internal/cli/daemons"},
		why: "processes are started in few places"},
	{to: loops, by: append([]string{"internal/daemon/...", "internal/config", "internal/state", "harmonizer/...", "nodehealth/...", "pools/local/...", "simulate"}, loops...),
		why: "commands, pages and the history take the type from api"},
}

// loops lists the packages that decide when to act.
var loops = []string{"autoscaler", "autoscaler/apply", "autoscaler/ask", "autoscaler/snapshot", "bootstrap", "bootstrap/control", "harmonizer", "nodehealth", "placer", "agent"}

// sdk lists the packages that the repository of a signal imports. They import no other package of this module, and
// outside tests only sdkModules.
var sdk = []string{"resource", "sigproto", "signals/...", "proto/..."}

// sdkModules are the third-party modules of the SDK. Each of them, with its dependencies, is a requirement of every
// signal's module. Add one only with an ADR.
var sdkModules = []string{"golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf"}

// pureImports are the packages that a pure package may import from outside this module: no I/O, no waiting, and the
// same result for the same input.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding/binary", "encoding/csv", "encoding/json", "errors",
	"fmt", "hash/crc32", "hash/fnv", "io", "iter", "maps", "math", "math/big", "math/bits", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// impure lists the functions of allowed packages that a pure package may not use.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "LoadLocation", "Local"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// worldTime lists the packages of the path of a tick, which a simulation runs under virtual time: there each time is
// World.Now and each limit is World.Limit. Only the named functions use the real clock: they set the defaults, and drive a loop in real time.
var worldTime = map[string][]string{
	"autoscaler":          {"NewLoop", "Run", "tending", "finish"},
	"autoscaler/apply":    {"New"},
	"autoscaler/ask":      {"New"},
	"autoscaler/snapshot": nil,
	"pools/drain":         {"Open"},
	"pools/cloud":         nil,
	"simulate":            nil,
}

// realTime lists the functions that use the real clock, beside those of impure.
var realTime = map[string][]string{
	"time":                              impure["time"],
	"context":                           {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	module + "/internal/platform/retry": {"Pause"},
}

// constructors return immutable values, so package variables may have them.
var constructors = []string{
	"errors.New", "regexp.MustCompile", "strings.NewReplacer", "netip.MustParseAddr", "netip.MustParsePrefix",
}

// processWide lists variables for things that exist once in a process.
var processWide = map[string]bool{
	"internal/platform/s3gateway.oneGateway": true, // the working directory, which the gateway changes
}

// place is where a package lives.
type place struct {
	room  string
	floor floor
}

// find returns the place of a package.
func find(dir string) (at place, found bool) {
	longest := -1
	for _, r := range house {
		if dir != r.path && !strings.HasPrefix(dir, r.path+"/") {
			continue
		}
		for f, names := range r.floors {
			for name := range strings.FieldsSeq(names) {
				pattern := path.Join(r.path, name)
				fit := len(strings.TrimSuffix(pattern, "/..."))
				if covers(pattern, dir) && (fit > longest || fit == longest && pattern == dir) {
					at, found, longest = place{r.path, f}, true, fit
				}
			}
		}
	}
	return at, found
}

// covers reports whether the pattern is the path, or a "/..." above it.
func covers(pattern, path string) bool {
	folder, open := strings.CutSuffix(pattern, "/...")
	return path == folder || open && strings.HasPrefix(path, folder+"/")
}

func coversAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}
