package bulktest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// maxRequests bounds the result of Requests.
const maxRequests = 10_000

// Request is a received request.
type Request struct {
	Path  string // "/bulk/apps"
	Token string // unchanged
	Batch string
	User  string // of the basic authentication
	Fault Fault  // the fault that it was answered with
}

// API is a bulk API as an http.Handler. New makes it.
type API struct {
	mu           sync.Mutex
	table        table
	user         string
	password     string
	users        int
	trouble      Trouble
	faultCleared chan struct{} // closed by ClearFault
	count        int
	requests     []Request     // the latest ones
	came         chan struct{} // closed by the next request
}

// New returns an API without rows that requires these credentials.
func New(user, password string) *API {
	return &API{table: newTable(), user: user, password: password,
		faultCleared: make(chan struct{}), came: make(chan struct{})}
}

// Set adds rows, or replaces rows with the same id. Setting many at once is fastest.
func (a *API) Set(rows ...Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rows {
		a.table.set(r)
	}
}

// Delete removes the rows of these apps.
func (a *API) Delete(ids ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.table.remove(ids)
}

// Len returns the number of rows.
func (a *API) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.table.rows)
}

// SetCredentials changes the required credentials.
func (a *API) SetCredentials(user, password string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.user, a.password = user, password
}

// SetUsers changes the number of users.
func (a *API) SetUsers(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users = n
}

// Break sets the trouble. Requests that are held stay so.
func (a *API) Break(t Trouble) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = t
}

// ClearFault ends the trouble, and answers the requests that are held.
func (a *API) ClearFault() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = Trouble{}
	close(a.faultCleared)
	a.faultCleared = make(chan struct{})
}

// Count returns the number of received requests.
func (a *API) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// Requests returns the latest requests, oldest first.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// Await waits until n requests were received since New. It returns only errors of ctx.
func (a *API) Await(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		count, came := a.count, a.came
		a.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ServeHTTP answers a request, or applies the trouble.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer, trouble, faultCleared := a.serve(r)
	if trouble.Fault != NoFault && trouble.Fault != Loop {
		trouble.apply(w, r, faultCleared, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may have closed the connection
}

// serve records the request, and returns its answer and trouble.
func (a *API) serve(r *http.Request) (status int, answer []byte, t Trouble, faultCleared <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t = a.trouble
	t.Fault = a.trouble.nextFault()
	a.recordRequest(r, t.Fault)
	user, password, _ := r.BasicAuth()
	switch {
	case user != a.user || password != a.password:
		status, answer = http.StatusUnauthorized, problem(10002, "Authentication error")
	case r.URL.Path == "/bulk/apps":
		status, answer = a.apps(r, t.Fault == Loop)
	case r.URL.Path == "/bulk/counts":
		status, answer = http.StatusOK, []byte(`{"counts":{"user":`+strconv.Itoa(a.users)+`}}`)
	default:
		status, answer = http.StatusNotFound, problem(10000, "Unknown request")
	}
	return status, answer, t, a.faultCleared
}

func (a *API) recordRequest(r *http.Request, f Fault) {
	user, _, _ := r.BasicAuth()
	query := r.URL.Query()
	if len(a.requests) == maxRequests {
		a.requests = append(a.requests[:0], a.requests[maxRequests/2:]...)
	}
	a.requests = append(a.requests, Request{
		Path: r.URL.Path, Token: query.Get("bulk_token"), Batch: query.Get("batch_size"), User: user, Fault: f,
	})
	a.count++
	close(a.came)
	a.came = make(chan struct{})
}

// apps returns the requested page.
func (a *API) apps(r *http.Request, loop bool) (status int, answer []byte) {
	query := r.URL.Query()
	size, err := strconv.Atoi(query.Get("batch_size"))
	var token struct {
		ID int `json:"id"`
	}
	if err != nil || size < 1 || json.Unmarshal([]byte(query.Get("bulk_token")), &token) != nil {
		return http.StatusBadRequest, problem(10005, "The query parameter is invalid")
	}
	answer = a.table.page(nil, token.ID, size)
	if loop {
		results, _, _ := strings.Cut(string(answer), `,"bulk_token":`)
		answer = []byte(results + `,"bulk_token":` + query.Get("bulk_token") + "}")
	}
	return http.StatusOK, answer
}

func problem(code int, text string) []byte {
	return encode(map[string]any{"code": code, "description": text})
}
