package bulktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type answer struct {
	Results map[string]map[string]any `json:"results"`
	Token   json.RawMessage           `json:"bulk_token"`
}

// get requests a page, as a client of the API does.
func get(t *testing.T, server *httptest.Server, size int, token, password string) (status int, a answer, err error) {
	t.Helper()
	address := fmt.Sprintf("%s/bulk/apps?batch_size=%d&bulk_token=%s", server.URL, size, url.QueryEscape(token))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("bulk", password)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return 0, a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return response.StatusCode, a, err
}

// walk reads all pages.
func walk(t *testing.T, server *httptest.Server, size int) (ids map[string]bool, pages int) {
	t.Helper()
	ids = map[string]bool{}
	for token := "{}"; ; pages++ {
		status, a, err := get(t, server, size, token, "secret")
		if status != http.StatusOK || err != nil {
			t.Fatalf("status %d: %v", status, err)
		}
		if len(a.Results) == 0 {
			return ids, pages + 1
		}
		for id, row := range a.Results {
			if row["id"] != id || ids[id] {
				t.Errorf("row %v under %q, seen before: %v", row, id, ids[id])
			}
			ids[id] = true
		}
		token = string(a.Token)
	}
}

func TestPaging(t *testing.T) {
	api := New("bulk", "secret")
	server := httptest.NewServer(api)
	defer server.Close()
	want := map[string]bool{}
	for i := range 10 {
		id := "app-" + strconv.Itoa(i)
		api.Set(Row{ID: id, Instances: i})
		want[id] = true
	}
	api.Delete("app-3", "app-9")
	api.Set(Row{ID: "app-5", Instances: 7}) // stays in its position
	delete(want, "app-3")
	delete(want, "app-9")
	for size, pages := range map[int]int{1: 9, 3: 4, 8: 2, 500: 2} {
		got, n := walk(t, server, size)
		if diff := cmp.Diff(want, got); diff != "" || n != pages {
			t.Errorf("batch_size %d: %d pages, want %d (-want +got):\n%s", size, n, pages, diff)
		}
	}
	if status, _, _ := get(t, server, 1, "{}", "other"); status != http.StatusUnauthorized {
		t.Errorf("status %d with another password, want 401", status)
	}
	if status, _, _ := get(t, server, 1, "{", "secret"); status != http.StatusBadRequest {
		t.Errorf("status %d with a bad token, want 400", status)
	}
}

func TestTroubleCoversItsRequests(t *testing.T) {
	api := New("bulk", "secret")
	api.Set(Row{ID: "a"})
	server := httptest.NewServer(api)
	defer server.Close()
	api.Break(Trouble{Fault: Status, Status: 503, After: 1, Times: 2})
	var got []int
	for range 4 {
		status, _, _ := get(t, server, 1, "{}", "secret")
		got = append(got, status)
	}
	if diff := cmp.Diff([]int{200, 503, 503, 200}, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if requests := api.Requests(); len(requests) != 4 || requests[1].Fault != Status || api.Count() != 4 {
		t.Errorf("requests %v", requests)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		fault  Fault
		status int  // 0: no answer
		broken bool // the answer is unreadable
	}{
		{NoFault, 200, false}, {Status, 500, true}, {Cut, 200, true}, {Truncated, 200, true}, {Garbage, 200, true},
		{Foreign, 200, false}, {Gone, 0, true}, {Redirect, 302, true}, {Huge, 200, true}, {Loop, 200, false},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			api := New("bulk", "secret")
			api.Set(Row{ID: "a"})
			server := httptest.NewServer(api)
			defer server.Close()
			api.Break(Trouble{Fault: tt.fault, Location: "http://elsewhere.test/"})
			status, a, err := get(t, server, 1, "{}", "secret")
			if status != tt.status || (err != nil) != tt.broken {
				t.Errorf("status %d, %v; want %d, an error: %v", status, err, tt.status, tt.broken)
			}
			if tt.fault == Loop && string(a.Token) != "{}" {
				t.Errorf("token %s, want that of the request", a.Token)
			}
			api.ClearFault()
			if status, _, err := get(t, server, 1, "{}", "secret"); status != 200 || err != nil {
				t.Errorf("status %d, %v after Mend", status, err)
			}
		})
	}
}

func TestHeldUntilCleared(t *testing.T) {
	api := New("bulk", "secret")
	api.Set(Row{ID: "a"})
	server := httptest.NewServer(api)
	defer server.Close()
	api.Break(Trouble{Fault: Held})
	faultCleared := make(chan struct{})
	go func() {
		defer close(faultCleared)
		if err := api.Await(t.Context(), 1); err == nil {
			api.ClearFault()
		}
	}()
	if status, a, err := get(t, server, 1, "{}", "secret"); status != 200 || err != nil || len(a.Results) != 1 {
		t.Errorf("status %d, %v, %d rows; want the answer", status, err, len(a.Results))
	}
	<-faultCleared
}

func BenchmarkSet(b *testing.B) {
	rows := make([]Row, 100_000)
	for i := range rows {
		rows[i] = Row{ID: "app-" + strconv.Itoa(i), Instances: 1}
	}
	for b.Loop() {
		New("bulk", "secret").Set(rows...)
	}
}
