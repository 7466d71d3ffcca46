package notifyd

import (
	"log/slog"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
)

func TestEachMetricIsExported(t *testing.T) {
	all, err := openSenders(t.TempDir(), []notify.Settings{{Name: "pager", URL: "http://127.0.0.1:1/"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	metrictest.Complete(t, metric.Notify(), metrictest.Series(t, newCollector(all)))
}
