package replay

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

// A recorded row has all that the rules of the harmonizer read.
func TestRecordedRowIsReadAgain(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := api.App{
		Name: "web", Pool: "p", Instances: 3, Version: "v2", Command: "run", CPUs: 1, Mem: 64, Disk: 1, GPUs: 1, Updated: at,
		State: api.AppStarted, Package: api.PackageStaged, Labels: map[string]string{"team": "shop"},
		Ready: &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Name: "http"}}}, Ports: []api.Port{{Name: "http", Port: api.AutoPort}},
		Update: &api.Update{StopAfter: 2}, History: []api.AppVersion{{Version: "v1", Command: "old"}}, OneShot: true, Retries: new(5),
	}
	data, err := json.Marshal(rowOf(want))
	if err != nil {
		t.Fatal(err)
	}
	got, err := (rawRow{name: "web", data: data}).app("p")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-recorded +read:\n%s", diff)
	}
}
