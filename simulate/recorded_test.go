package simulate_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// onAWS reads testdata/aws.jsonl.gz: 20 minutes of a pool on the AWS test server, as "weir explain --output json" prints them. It has an
// Auto Scaling group of two types and a Spot Fleet with weights. Machines are lost, interrupted and at risk, and types are short. The fleet
// refuses changes while it is being modified. Calls are throttled, denied, or lose their answers. Operators pause, pin and add an offset.
func onAWS(t *testing.T) *simulate.Recording {
	t.Helper()
	file, err := os.Open("testdata/aws.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &simulate.Recording{}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, history.MaxRecord)
	for lines.Scan() {
		one, err := history.ReadPrinted(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add("", one); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

// The same policy decides the recorded ticks again.
func TestReplayOfARecordedPoolOnAWS(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	sum, different := replay(t, onAWS(t))
	t.Logf("%d of %d ticks are the same", sum.Same, sum.Ticks)
	if sum.Ticks < 600 || 100*sum.Same < 99*sum.Ticks {
		t.Errorf("%d of %d ticks are the same, want 99 %% of at least 600; the first that differs: %+v", sum.Same, sum.Ticks, different[:min(1, len(different))])
	}
}

// A recording has the market of each group, only spot machines are interrupted, and each app has its need, also where its signal failed.
func TestGroupsOfARecordedPoolOnAWS(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	r := onAWS(t)
	groups := r.Groups()
	if len(groups) != 2 {
		t.Fatalf("the groups are %+v", groups)
	}
	fleet, group := groups[0], groups[1]
	if fleet.Market != (price.Market{Type: "m5.large", Zone: "us-west-2a", Spot: true}) || fleet.Weight != 1 || fleet.Interruptions == 0 || fleet.Lost != 0 {
		t.Errorf("the Spot Fleet is %+v", fleet)
	}
	if group.Market != (price.Market{Type: "m7i.large", Zone: "us-west-2a"}) || group.Interruptions != 0 || group.Lost == 0 {
		t.Errorf("the Auto Scaling group is %+v", group)
	}
	series, err := r.Series()
	if err != nil {
		t.Fatal(err)
	}
	var rows bytes.Buffer
	if err := series.WriteCSV(&rows); err != nil || !strings.Contains(rows.String(), ",jobs,") || strings.Contains(rows.String(), ",all,") {
		t.Errorf("the needs are %v\n%s", err, &rows)
	}
}

// The newest cost of a record has the price of each market.
func TestPricesOfARecording(t *testing.T) {
	t.Parallel()
	s := eventful(t, 30)
	s.Prices = &price.Prices{}
	for i, g := range s.Groups {
		if err := s.Prices.Set(g.Market, noon, 0.25*float64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range recorded(t, s, nil).Groups() {
		if want := []simulate.Price{{Market: s.Groups[i].Market, Hour: 0.25 * float64(i+1)}}; !cmp.Equal(g.Prices, want) {
			t.Errorf("the prices of group %s are %+v, want %+v", g.ID, g.Prices, want)
		}
	}
}
