package atrest

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resident returns how many kB of the program's read-only areas are in memory.
func resident(t *testing.T) (total int) {
	t.Helper()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case strings.Contains(fields[0], "-"):
			inside = fields[len(fields)-1] == self && !strings.Contains(fields[1], "w")
		case inside && fields[0] == "Rss:":
			kB, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			total += kB
		}
	}
	return total
}

func TestReturnProgram(t *testing.T) {
	before := resident(t)
	if err := returnProgram(); err != nil {
		t.Fatal(err)
	}
	if after := resident(t); before == 0 || after >= before {
		t.Errorf("%d kB of the program are in memory, and %d kB after the return", before, after)
	}
}

func TestReadOnly(t *testing.T) {
	const maps = `00400000-01553000 r-xp 00000000 fe:00 10502404                           /usr/bin/we ir
01553000-0265a000 r--p 01153000 fe:00 10502404                           /usr/bin/we ir
0265a000-026e6000 rw-p 0225a000 fe:00 10502404                           /usr/bin/we ir
026e6000-04730000 rw-p 00000000 00:00 0
7f7babec8000-7f7babeca000 r-xp 00000000 00:00 0                          [vdso]
`
	got, err := readOnly(strings.NewReader(maps), "/usr/bin/we ir")
	if want := []area{{0x400000, 0x1553000}, {0x1553000, 0x265a000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("areas %x %v, want %x", got, err, want)
	}
}

func TestPercent(t *testing.T) {
	for _, test := range []struct {
		current int
		live    uint64
		want    int
	}{
		{100, small - 1, smallPercent}, {smallPercent, large, smallPercent}, {smallPercent, large + 1, 100}, {100, small, 100},
	} {
		if got := percent(test.current, test.live); got != test.want {
			t.Errorf("percent(%d, %d) = %d, want %d", test.current, test.live, got, test.want)
		}
	}
}

// The percentage follows the heap: each collection sets that of the next one.
func TestAdapt(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	now := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	reach := func(want uint64) {
		t.Helper()
		for end := time.After(time.Minute); now() != want; runtime.GC() {
			select {
			case <-end:
				t.Fatalf("the percentage is %d, want %d", now(), want)
			default:
			}
		}
	}
	adapt(largePercent)
	reach(smallPercent)
	big := make([]byte, 2*large)
	reach(largePercent)
	runtime.KeepAlive(big)
	big = nil
	reach(smallPercent)
}
