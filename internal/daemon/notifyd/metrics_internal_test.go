package notifyd

import (
	"log/slog"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
)

func TestEachMetricIsExported(t *testing.T) {
	all := newSenders([]notify.Settings{{Name: "pager", URL: "http://127.0.0.1:1/"}}, &notices{}, slog.New(slog.DiscardHandler))
	metrictest.Complete(t, metric.Notify(), metrictest.Series(t, newCollector(all)))
}
