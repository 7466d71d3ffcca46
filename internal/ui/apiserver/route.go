package apiserver

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// param is a parameter of the query.
type param struct{ name, kind, doc string } // kind: time, integer, boolean, string or list

// route is one method of one path.
type route struct {
	method, path, doc string
	params            []param
	body              reflect.Type // of an order
	response          reflect.Type
	read              func(*call) (any, error)
	order             func(*call) (any, error)                  // needs an operator
	stream            func(*server, *call, http.ResponseWriter) // instead of a JSON response
}

const poolPath = "/pools/{cluster}/{pool}"

// routes returns all routes. The OpenAPI file documents each.
func routes() []route {
	from, to := param{"from", "time", "first time; default: an hour before to"}, param{"to", "time", "last time; default: now"}
	limit := param{"limit", "integer", "largest number of entries, 1 to 1000; default: 100"}
	return []route{
		{method: "GET", path: "/pools", doc: "Pools of the cluster, worst first", response: reflect.TypeFor[[]api.Pool](), read: (*call).fleet},
		{method: "GET", path: poolPath, doc: "Status of a pool", response: reflect.TypeFor[api.PoolStatus](), read: (*call).status},
		{method: "GET", path: poolPath + "/nodes", doc: "Nodes of a pool", response: reflect.TypeFor[[]api.Node](), read: (*call).nodes},
		{method: "GET", path: poolPath + "/apps", doc: "Applications of a pool", response: reflect.TypeFor[api.HarmonizerStatus](), read: (*call).apps},
		{method: "GET", path: poolPath + "/signals", doc: "Signal processes of a pool", response: reflect.TypeFor[[]api.Process](), read: (*call).signals},
		{method: "GET", path: poolPath + "/ticks", doc: "Summaries of the ticks of a pool, oldest first",
			params:   []param{from, to, {"changed", "boolean", "only ticks that did or changed something"}, limit},
			response: reflect.TypeFor[api.Ticks](), read: (*call).ticks},
		{method: "GET", path: poolPath + "/ticks/{at}", doc: "Full record of one tick, by its exact time", response: reflect.TypeFor[api.TickRecord](), read: (*call).tick},
		{method: "GET", path: poolPath + "/ticks/{at}/decide", doc: "One tick decided again with another policy", params: []param{{"set", "list", "KEY=VALUE of the policy, as in \"weir decide --set\"; may be repeated"}},
			response: reflect.TypeFor[api.DecidedAgain](), read: (*call).again},
		{method: "GET", path: poolPath + "/series", doc: "Columns of the ticks of a pool, for plots",
			params:   []param{from, to, {"points", "integer", "largest number of points, 3 to 3000; default: 720"}},
			response: reflect.TypeFor[api.Series](), read: (*call).series},
		{method: "GET", path: poolPath + "/events", doc: "Events of the past of a pool, oldest first",
			params:   []param{from, to, {"kind", "list", "only these kinds; may be repeated"}, limit},
			response: reflect.TypeFor[api.Events](), read: (*call).events},
		{method: "GET", path: "/events", doc: "New events, as server-sent events", params: []param{{"pool", "string", "only this pool, and events of no pool"}}, stream: (*server).live},
		{method: "POST", path: poolPath + "/pause", doc: "Pause a pool", body: reflect.TypeFor[api.TimedOrder](), response: reflect.TypeFor[api.Orders](), order: (*call).pause},
		{method: "POST", path: poolPath + "/resume", doc: "End the pause of a pool", body: reflect.TypeFor[api.EndOrder](), response: reflect.TypeFor[api.Orders](), order: (*call).resume},
		{method: "POST", path: poolPath + "/offset", doc: "Add a weight to the target of a pool for a limited time", body: reflect.TypeFor[api.OffsetOrder](), response: reflect.TypeFor[api.Orders](), order: (*call).offset},
		{method: "POST", path: poolPath + "/target", doc: "Pin the target of a pool, or remove the pin", body: reflect.TypeFor[api.TargetOrder](), response: reflect.TypeFor[api.Orders](), order: (*call).target},
		{method: "POST", path: poolPath + "/recover", doc: "Order the repair of nodes", body: reflect.TypeFor[api.RecoverOrder](), response: reflect.TypeFor[api.RepairOrderResponse](), order: (*call).recover},
		{method: "POST", path: poolPath + "/apps/{app}/retry", doc: "Start crashed instances of an application now, also those that are given up", body: reflect.TypeFor[api.EndOrder](), response: reflect.TypeFor[api.HarmonizerOrderAnswer](), order: (*call).retry},
	}
}

// call is one request with its pool.
type call struct {
	*server
	request *http.Request
	query   map[string][]string
	name    string // of the pool
	pool    Pool
	by      Token
	now     time.Time
}

// problem is an error with its status.
type problem struct {
	status int
	err    error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// wrong returns the error of a mistake in the request.
func wrong(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// serve returns the handler of a route.
func (s *server) serve(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		// A stream sets a deadline for each event.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readWithin + writeWithin)) // a recorder has no deadlines
		ctx, cancel := q.Context(), func() {}
		if r.stream == nil {
			ctx, cancel = context.WithTimeout(ctx, readWithin)
		}
		defer cancel()
		c := &call{server: s, request: q.WithContext(ctx), now: time.Now()}
		c.by, _ = q.Context().Value(authorKey{}).(Token)
		v, err := c.answer(r, w)
		if err != nil {
			writeError(w, statusOf(err), err)
			return
		}
		if r.stream == nil {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
			s.write(w, v)
		}
	}
}

// answer checks the request and returns the response.
func (c *call) answer(r route, w http.ResponseWriter) (any, error) {
	if err := c.parse(r); err != nil {
		return nil, err
	}
	if r.order != nil {
		if err := c.mayOrder(); err != nil {
			return nil, err
		}
	}
	if c.request.PathValue("pool") != "" {
		if err := c.findPool(); err != nil {
			return nil, err
		}
	}
	switch {
	case r.stream != nil:
		r.stream(c.server, c, w)
		return nil, nil
	case r.order != nil:
		return r.order(c)
	}
	return r.read(c)
}

// parse checks the names and the number of the parameters.
func (c *call) parse(r route) error {
	c.query = c.request.URL.Query()
	for name, values := range c.query {
		i := slices.IndexFunc(r.params, func(p param) bool { return p.name == name })
		if i < 0 {
			return wrong("parameter %.40q is unknown: see %s/openapi.yaml", name, Prefix)
		}
		if most := 1; r.params[i].kind != "list" && len(values) > most || len(values) > 20 {
			return wrong("parameter %s is given %d times", name, len(values))
		}
	}
	return nil
}

// mayOrder refuses requests without the token of an operator.
func (c *call) mayOrder() error {
	if c.by.Role != Operator {
		return &problem{http.StatusForbidden, errors.New("an order needs the token of an operator: send \"Authorization: Bearer SECRET\"")}
	}
	if kind, _, err := mime.ParseMediaType(c.request.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &problem{http.StatusUnsupportedMediaType, errors.New("send the order with \"Content-Type: application/json\"")}
	}
	return nil
}

// findPool sets the pool of the path. It returns an error unless the cluster has the pool.
func (c *call) findPool() error {
	cluster, pool := c.request.PathValue("cluster"), c.request.PathValue("pool")
	if cluster != c.Cluster {
		return &problem{http.StatusNotFound, fmt.Errorf("this server has no cluster %.64q: its cluster is %s", cluster, c.Cluster)}
	}
	if err := c.checkPool(pool); err != nil {
		return err
	}
	c.name, c.pool = pool, c.Pool(pool)
	return nil
}

// checkPool returns an error unless the cluster has the pool.
func (c *call) checkPool(pool string) error {
	known := []string{}
	if names.Valid(pool) {
		ctx, cancel := context.WithTimeout(c.request.Context(), readWithin) // that of a stream has no deadline
		defer cancel()
		var err error
		if known, err = c.Fleet.Pools(ctx); err != nil {
			return err
		}
	}
	if !slices.Contains(known, pool) {
		return &problem{http.StatusNotFound, fmt.Errorf("cluster %s has no pool %.64q", c.Cluster, pool)}
	}
	return nil
}

// value returns a parameter; empty: not given.
func (c *call) value(name string) string {
	if len(c.query[name]) == 0 {
		return ""
	}
	return c.query[name][0]
}

// integer returns a parameter in that range.
func (c *call) integer(name string, normal, least, most int) (int, error) {
	text := c.value(name)
	if text == "" {
		return normal, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, wrong("parameter %s is %.40q: want %d to %d", name, text, least, most)
	}
	return n, nil
}

// longestRange bounds the range of a request.
const longestRange = 92 * 24 * time.Hour

// span returns the parameters from and to.
func (c *call) span() (from, to time.Time, err error) {
	to = c.now
	if text := c.value("to"); text != "" {
		if to, err = parseTime("to", text); err != nil {
			return from, to, err
		}
	}
	from = to.Add(-time.Hour)
	if text := c.value("from"); text != "" {
		if from, err = parseTime("from", text); err != nil {
			return from, to, err
		}
	}
	if from.After(to) || to.Sub(from) > longestRange {
		return from, to, wrong("the range from %s to %s: want from before to, and at most 92 days", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return from, to, nil
}

// parseTime parses a time of RFC 3339 between the years 1970 and 9999.
func parseTime(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1970 {
		return at, wrong("%s is %.60q: want a time such as 2026-01-02T03:10:00Z", name, text)
	}
	return at, nil
}

// body decodes an order.
func (c *call) body(into any) error {
	data, err := io.ReadAll(c.request.Body)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return &problem{http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)}
	}
	if err != nil {
		return wrong("read the body: %w", err)
	}
	if err := strictjson.Decode(data, into); err != nil {
		return wrong("body: %w", err)
	}
	return nil
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.status
	}
	if _, ok := errors.AsType[*view.AbsentError](err); ok {
		return http.StatusServiceUnavailable
	}
	if _, ok := errors.AsType[*usage.Error](err); ok {
		return http.StatusNotFound
	}
	switch {
	case errors.Is(err, state.ErrNoRecord):
		return http.StatusNotFound
	case errors.Is(err, api.ErrOrder):
		return http.StatusBadRequest
	case errors.Is(err, events.ErrNoResponse), errors.Is(err, view.ErrNoAutoscaler), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrNoServers):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// write writes a response.
func (s *server) write(w http.ResponseWriter, v any) {
	data, err := seconds.Of(v)
	if err != nil {
		s.Log.Error("response of the API not encoded", "err", err)
		writeError(w, http.StatusInternalServerError, errors.New("the response cannot be encoded: see the log"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // fails only if the client is gone
}

// writeError writes an error as JSON.
func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "3")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // fails only if the client is gone
		Error string `json:"error"`
	}{terminal.OneLine(err.Error())})
}

//go:embed openapi.yaml
var openAPI string

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = io.WriteString(w, openAPI) // fails only if the client is gone
}
