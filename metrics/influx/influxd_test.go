package influx_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// shared is the only influxd of all tests.
var shared influxServer

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// config returns the Config of a new database.
func config(t testing.TB) influx.Config {
	t.Helper()
	return shared.Config(t)
}

// open returns a store that is closed with the test.
func open(t testing.TB, c influx.Config) *influx.Store {
	t.Helper()
	store, err := influx.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}
