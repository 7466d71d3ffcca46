package arch

import (
	"slices"
	"strings"
)

const module = "github.com/weirkeeper/weirkeeper"

// row is a layer of the module. Imports point to lower rows only.
type row int

const (
	leaf           row = iota
	vocabulary         // shared types and ports
	core               // pure rules
	machinery          // parts of loops: processes, records
	loop               // decides when to act
	infrastructure     // below the adapters
	adapter            // one technology each
	wiring             // composes the processes
	support            // for tests: imported by tests and programs only
	program            // not imported
)

func (r row) String() string {
	return [...]string{"leaf", "vocabulary", "core", "machinery", "loop", "infrastructure", "adapter", "wiring", "support", "program"}[r]
}

// entry is the row of one package, or with "/..." of all packages below a folder too.
type entry struct {
	path string
	row  row
	// pure: only the standard packages in pureImports, without a clock.
	pure bool
	// std: only this module and the standard library.
	std bool
	// family: packages of one family form one part and may import each other within their row.
	family string
	// only: if set, the only packages of this module that it may import.
	only []string
	// by: if set, the only packages that may import it.
	by []string
}

var none = []string{}

var house = []entry{
	{path: "resource", row: leaf, std: true, family: "ground"},
	{path: "api", row: leaf, family: "ground", pure: true, std: true, only: []string{"resource"}},
	{path: "proto/...", row: leaf, only: none},
	{path: "internal/platform/spelling", row: leaf, std: true, only: none},
	{path: "internal/platform/seconds", row: leaf, std: true, only: none},
	{path: "bootstrap/release/shareddir", row: leaf, only: none, by: []string{"bootstrap/release"}},
	{path: "bootstrap/release/keyfile", row: leaf, family: "files", only: []string{"internal/platform/inputfile"},
		by: []string{"bootstrap/release", "internal/config", "internal/daemon/signalbucket", "cmd/..."}},
	{path: "internal/platform/sdnotify", row: leaf, only: none},
	{path: "internal/platform/atrest", row: leaf, only: none},
	{path: "internal/platform/diskspace", row: leaf, family: "ground", only: []string{"api"}},
	{path: "internal/platform/httpguard", row: leaf, std: true, only: none},
	{path: "internal/platform/inputfile", row: leaf, std: true, family: "files", only: none},
	{path: "internal/cli/installation", row: leaf, std: true, only: none, by: []string{"internal/cli/doctor"}},
	{path: "internal/platform/jsonlines", row: leaf, std: true, only: none},
	{path: "internal/platform/metric", row: leaf, only: none},
	{path: "internal/platform/strictyaml", row: leaf, only: none},
	{path: "internal/platform/bus/natscert", row: leaf, std: true, only: none},
	{path: "internal/manual", row: leaf, only: none, by: []string{"cmd/..."}},
	{path: "internal/platform/names", row: leaf, pure: true, std: true, only: none},
	{path: "internal/platform/retry", row: leaf, only: none},
	{path: "internal/platform/strictjson", row: leaf, std: true, only: none},
	{path: "internal/platform/trace", row: leaf, std: true, only: none},
	{path: "internal/platform/terminal", row: leaf, only: none},
	{path: "internal/platform/usage", row: leaf, std: true, only: none},
	{path: "internal/platform/wholefile", row: leaf, std: true, only: none},

	{path: "metrics", row: vocabulary},
	{path: "pools", row: vocabulary},
	{path: "pools/disruption", row: vocabulary, pure: true, std: true, only: none},
	{path: "pools/liveness", row: vocabulary, pure: true, std: true, only: none},
	{path: "bootstrap/release", row: vocabulary},
	{path: "internal/platform/bus/roles", row: vocabulary, pure: true, std: true, only: []string{"internal/platform/names"}},
	{path: "harmonizer/message", row: vocabulary, only: []string{"api", "resource", "internal/platform/names"}},

	{path: "internal/platform/bus/natsconf", row: core, pure: true, std: true, only: []string{"internal/platform/bus/roles", "internal/platform/names"}},
	{path: "autoscaler/decide", row: core, pure: true},
	{path: "autoscaler/shadow", row: core, pure: true},
	{path: "pools/plan", row: core, pure: true},
	{path: "nodehealth/judge", row: core, pure: true},
	{path: "harmonizer/wheel", row: core, pure: true, std: true, family: "harmonizer", only: none},
	{path: "harmonizer/queue", row: core, pure: true, std: true, family: "harmonizer", only: []string{"resource"}},
	{path: "harmonizer/known", row: core, pure: true, family: "harmonizer"},
	{path: "harmonizer/apps", row: core, pure: true, family: "harmonizer"},
	{path: "harmonizer/shadow", row: core, pure: true, family: "harmonizer"},
	{path: "harmonizer/report", row: core, pure: true, family: "harmonizer"},
	{path: "sigproto", row: core, std: true, only: none},
	{path: "metrics/record", row: core, std: true, only: []string{"metrics", "internal/platform/strictjson"}},

	{path: "autoscaler/resolve", row: machinery, pure: true},
	{path: "autoscaler/snapshot", row: machinery, only: []string{"api", "resource", "pools", "pools/disruption", "internal/platform/trace"}},
	{path: "autoscaler/ask", row: machinery, only: []string{"api", "resource", "sigproto", "metrics", "autoscaler/decide", "autoscaler/shadow", "internal/platform/trace"}},
	{path: "metrics/windows", row: machinery, std: true, only: []string{"metrics"}},
	{path: "harmonizer/replay", row: machinery},
	{path: "nodehealth/replay", row: machinery},
	{path: "nodehealth/senlin", row: machinery},
	{path: "pools/drain", row: machinery, only: []string{"api", "resource", "pools"}},
	{path: "bootstrap/supervise/output", row: machinery, family: "processes", only: none,
		by: []string{"bootstrap", "bootstrap/supervise", "bootstrap/control", "agent", "pools/local/...", "internal/daemon/...", "internal/cli/localworld", "cmd/..."}},
	{path: "bootstrap/supervise", row: machinery, family: "processes", only: []string{"bootstrap/supervise/output"},
		by: []string{"bootstrap", "bootstrap/control", "agent", "pools/local/...", "nodehealth/workflow", "internal/daemon/...", "internal/cli/localworld", "cmd/..."}},
	{path: "bootstrap/control", row: machinery, family: "processes", only: []string{"bootstrap/supervise", "bootstrap/supervise/output", "proto/...", "sigproto"},
		by: []string{"bootstrap", "internal/daemon/...", "internal/cli/localworld", "cmd/..."}},

	{path: "autoscaler", row: loop, family: "autoscaler"},
	{path: "autoscaler/apply", row: loop, family: "autoscaler", only: []string{"api", "resource", "pools", "pools/disruption", "pools/drain", "pools/plan", "autoscaler/decide", "autoscaler/resolve", "autoscaler/snapshot", "internal/platform/trace"}},
	{path: "bootstrap", row: loop},
	{path: "harmonizer", row: loop},
	{path: "nodehealth", row: loop},
	{path: "placer", row: loop},
	{path: "signals", row: loop, family: "signals", std: true, only: []string{"resource", "sigproto"}},
	{path: "signals/builtin", row: loop, family: "signals", std: true, only: []string{"resource", "sigproto", "signals"}},
	{path: "signals/plugin", row: loop, family: "signals"},

	{path: "internal/platform/call", row: infrastructure, family: "bus", only: []string{"internal/platform/bus", "internal/platform/strictjson"}},
	{path: "internal/platform/flock", row: infrastructure, family: "bus", only: none},
	{path: "internal/platform/bus", row: infrastructure, family: "bus"},
	{path: "internal/platform/bus/natsserver", row: infrastructure, family: "bus", by: []string{"internal/cli/localworld", "pools/local/localtest"}},
	{path: "internal/platform/kvbucket", row: infrastructure, family: "bus", only: []string{"internal/platform/bus", "internal/platform/names"}},
	{path: "internal/platform/integrity", row: infrastructure, family: "bus", only: []string{"internal/platform/kvbucket", "internal/platform/names"}},
	{path: "internal/explain", row: infrastructure, family: "ledger"},
	{path: "internal/past", row: infrastructure, family: "ledger"},
	{path: "internal/platform/awssdk", row: infrastructure, only: none},
	{path: "metrics/store", row: infrastructure, only: []string{"metrics", "internal/platform/strictyaml"}},
	{path: "pools/provider", row: infrastructure, only: []string{"api", "pools", "nodehealth/judge", "internal/platform/strictyaml"}},
	{path: "internal/platform/identity", row: infrastructure, only: []string{"internal/platform/inputfile", "internal/platform/names", "internal/platform/strictjson", "internal/platform/strictyaml", "internal/platform/wholefile"}},
	{path: "internal/platform/telemetry", row: infrastructure, only: []string{"internal/platform/trace"}},
	{path: "internal/platform/netguard", row: infrastructure, std: true, only: none},
	{path: "internal/platform/notify", row: infrastructure, family: "webhooks", only: []string{"internal/platform/names", "internal/platform/retry", "internal/platform/strictyaml", "internal/platform/webhook", "internal/platform/wholefile"}},
	{path: "internal/platform/webhook", row: infrastructure, family: "webhooks", std: true, only: []string{"internal/platform/inputfile"}},

	{path: "agent", row: adapter, family: "local"},
	{path: "agent/wire", row: adapter, family: "local"},
	{path: "agent/metadata", row: adapter, only: none},
	{path: "agent/measure", row: adapter, only: []string{"resource"}},
	{path: "bootstrap/release/s3store", row: adapter},
	{path: "harmonizer/bulkapi", row: adapter},
	{path: "harmonizer/natsbus", row: adapter},
	{path: "harmonizer/rowfile", row: adapter},
	{path: "internal/platform/bus/authcallout", row: adapter, only: []string{"internal/platform/identity"}},
	{path: "internal/platform/identity/...", row: adapter},
	{path: "internal/platform/s3gateway", row: adapter, by: []string{"internal/cli/localworld", "internal/platform/s3gateway/s3test"}},
	{path: "internal/state", row: adapter, family: "state"},
	{path: "internal/state/backup", row: adapter, only: []string{"internal/platform/bus", "internal/platform/integrity", "internal/platform/kvbucket", "internal/platform/names"}, by: []string{"cmd/..."}},
	{path: "internal/ui/web", row: adapter, family: "web"},
	{path: "internal/ui/web/series", row: adapter, pure: true, family: "web"},
	{path: "internal/ui/web/plot", row: adapter, pure: true, family: "web", only: []string{"internal/ui/web/series"}},
	{path: "metrics/embedded", row: adapter, family: "embedded"},
	{path: "metrics/embedded/tsdbstore", row: adapter, family: "embedded", by: []string{"internal/cli/localworld", "pools/local/localtest"}},
	{path: "metrics/influx", row: adapter},
	{path: "metrics/lineprotocol", row: adapter, only: []string{"metrics"}},
	{path: "pools/aws", row: adapter},
	{path: "nodehealth/events", row: adapter},
	{path: "nodehealth/probes", row: adapter},
	{path: "nodehealth/workflow", row: adapter},
	{path: "pools/...", row: adapter},
	{path: "pools/local/...", row: adapter, family: "local"},
	{path: "internal/cli/natsinit", row: adapter, only: []string{"internal/platform/bus/natscert", "internal/platform/bus/natsconf", "internal/platform/bus/roles", "internal/platform/flock", "internal/platform/strictjson", "internal/platform/wholefile"},
		by: []string{"cmd/..."}},
	{path: "internal/cli/scaffold", row: adapter, only: []string{"internal/platform/names"}, by: []string{"cmd/..."}},

	{path: "metrics/backfill", row: wiring, only: []string{"metrics", "metrics/lineprotocol", "metrics/record"}},
	{path: "internal/config/providers", row: wiring, family: "processes of weir", only: []string{"pools/..."}, by: []string{"internal/config"}},
	{path: "internal/config/stores", row: wiring, family: "processes of weir", only: []string{"metrics/..."}, by: []string{"internal/config"}},
	{path: "internal/config/verifiers", row: wiring, family: "processes of weir", only: []string{"internal/platform/identity/..."}},
	{path: "internal/config", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/signalbucket", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/agentd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/admin", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/autoscalerd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/bootstrapd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/authd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/harmonizerd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/notifyd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/placerd", row: wiring, family: "processes of weir"},
	{path: "internal/daemon/webd", row: wiring, family: "processes of weir"},
	{path: "internal/history", row: wiring, family: "processes of weir"},
	{path: "internal/recompute", row: wiring, family: "processes of weir"},
	{path: "internal/cli/command", row: wiring, family: "processes of weir"},
	{path: "internal/cli/doctor", row: wiring, family: "processes of weir"},
	{path: "internal/cli/localworld", row: wiring, family: "processes of weir"},
	{path: "internal/ui/view", row: wiring, family: "processes of weir"},
	{path: "internal/ui/apiserver", row: wiring, family: "processes of weir"},
	{path: "internal/daemon", row: wiring, family: "processes of weir"},

	{path: "internal/arch", row: support, only: none},
	{path: "internal/platform/bus/bustest", row: support, family: "servers of tests", only: []string{"internal/platform/bus/natscert", "internal/platform/bus/natsconf", "internal/platform/bus/roles"}},
	{path: "internal/platform/smalldisk", row: support, only: none},
	{path: "internal/platform/identity/identitytest", row: support, family: "servers of tests"},
	{path: "internal/platform/metric/metrictest", row: support, only: []string{"internal/platform/metric"}},
	{path: "internal/platform/telemetry/otlptest", row: support, only: none},
	{path: "internal/platform/promtest", row: support, only: []string{"internal/platform/metric"}},
	{path: "internal/ui/web/webtest", row: support},
	{path: "internal/platform/testsize", row: support, std: true, only: none},
	{path: "harmonizer/bulkapi/bulktest", row: support, only: none},
	{path: "internal/platform/s3gateway/s3test", row: support},
	{path: "metrics/metricstest", row: support},
	{path: "metrics/influx/influxtest", row: support, only: []string{"internal/platform/flock", "metrics/influx"}},
	{path: "pools/local/localtest", row: support},
	{path: "pools/pooltest/...", row: support},
	{path: "pools/aws/awstest", row: support, only: none},
	{path: "signals/signaltest", row: support},
	{path: "placer/schedulertest", row: support},

	{path: "cmd/...", row: program, by: none},
	{path: "deploy/packages", row: program, std: true, by: none, only: none},
	{path: "docs/record", row: program, std: true, by: none, only: none},
	{path: "examples/...", row: program, by: none, only: []string{"resource", "signals/..."}},
	{path: "examples/provider", row: program, by: none, only: []string{"api", "pools", "pools/provider", "nodehealth/judge", "internal/platform/strictyaml"}},
}

// sdk lists the packages that the repository of a signal imports. They import no other package of this module, and
// outside tests only sdkModules.
var sdk = []string{"resource", "sigproto", "signals/...", "proto/..."}

// sdkModules are the third-party modules of the SDK. Each of them, with its dependencies, is a requirement of every
// signal's module. Add one only with an ADR.
var sdkModules = []string{"golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf"}

// pureImports are the packages that a pure package may import from outside this module: no I/O, no waiting, and the
// same result for the same input.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding/binary", "encoding/json", "errors",
	"fmt", "hash/crc32", "hash/fnv", "iter", "maps", "math", "math/big", "math/bits", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// impure lists the functions of allowed packages that a pure package may not use.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// constructors return immutable values, so package variables may have them.
var constructors = []string{
	"errors.New", "regexp.MustCompile", "strings.NewReplacer", "netip.MustParseAddr", "netip.MustParsePrefix",
}

// processWide lists variables for things that exist once in a process.
var processWide = map[string]bool{
	"internal/platform/s3gateway.oneGateway": true, // the working directory, which the gateway changes
}

// find returns the entry of a package: its own, or that of the nearest folder above.
func find(path string) (entry, bool) {
	best, found := entry{}, false
	for _, e := range house {
		if e.path == path {
			return e, true
		}
		if covers(e.path, path) && len(e.path) > len(best.path) {
			best, found = e, true
		}
	}
	return best, found
}

// covers reports whether the pattern is the path, or a "/..." above it.
func covers(pattern, path string) bool {
	folder, open := strings.CutSuffix(pattern, "/...")
	return path == folder || open && strings.HasPrefix(path, folder+"/")
}

func coversAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}
