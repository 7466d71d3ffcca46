package simulate_test

import (
	"bufio"
	"compress/gzip"
	"os"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// testdata/aws.jsonl.gz has 20 minutes of a pool on the AWS test server, as "weir explain --output json" prints them: an Auto Scaling
// group of two types and a Spot Fleet with weights. In it machines are lost, interrupted and at risk, types are short, the fleet refuses
// changes while it is being modified, calls are throttled and denied and lose their answers, and operators pause, pin and add an offset.
func TestReplayOfARecordedPoolOnAWS(t *testing.T) {
	t.Parallel()
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
	sum, different := replay(t, r)
	t.Logf("%d of %d ticks are the same", sum.Same, sum.Ticks)
	if sum.Ticks < 600 || 100*sum.Same < 99*sum.Ticks {
		t.Errorf("%d of %d ticks are the same, want 99 %% of at least 600; the first that differs: %+v", sum.Same, sum.Ticks, different[:min(1, len(different))])
	}
}
