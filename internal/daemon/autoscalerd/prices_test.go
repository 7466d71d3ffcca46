package autoscalerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/config"
)

// Decisions by cost have the prices of the files as they are at the tick. A file that is gone or wrong is an error until it is back.
func TestPricesFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	f := pricesOf(&config.Prices{Table: path})
	offer := func(kind string) api.MarketOffer { return api.MarketOffer{InstanceType: kind, Zone: "a"} }
	want := func(m5, c5 float64, wrong string) {
		t.Helper()
		for kind, want := range map[string]float64{"m5": m5, "c5": c5} {
			got, err := f.price("g", offer(kind), at)
			if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) || err == nil && got != want {
				t.Errorf("%s: %s costs %v, %v; want %v, %q", at.Format(time.TimeOnly), kind, got, err, want, wrong)
			}
		}
	}
	write("type,price\nm5,0.2\nc5,0.3\n")
	want(0.2, 0.3, "")
	at = at.Add(time.Second)
	write("type,price\nm5,0.4\nc5,0.3\n") // of the same size
	want(0.4, 0.3, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(0.4, 0.3, "") // one tick has one state of the files
	at = at.Add(time.Minute)
	want(0, 0, "no such file")
	at = at.Add(time.Minute)
	write("type,price\nm5,cheap\n")
	want(0, 0, "cheap")
	at = at.Add(time.Minute)
	write("type,price\nm5,0.1\nc5,0.5\n")
	want(0.1, 0.5, "")
	if w := pricesOf(nil).into(autoscaler.World{}); w.Price != nil || w.Cost != nil {
		t.Error("without a file there are prices")
	}
}
