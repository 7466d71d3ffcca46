package command

import (
	"strings"
	"testing"
	"time"
)

// A near duration is always one that package time reads.
func TestNearDuration(t *testing.T) {
	for given, want := range map[string]string{
		"90": "1m30s", "5": "5s", "5min": "5m", "2 hours": "2h", "1h30": "1h30m", "1 h 30 min": "1h30m", "2d": "48h", "1w": "168h", "1.5days": "36h",
		"": "", "soon": "", "0": "", "-5": "", "5 parsecs": "", "99999999d": "", "1e9h": "", "h": "",
	} {
		got := durationNear(given)
		if got != want {
			t.Errorf("NearDuration(%q) = %q, want %q", given, got, want)
		}
		if d, err := time.ParseDuration(got); got != "" && (err != nil || d <= 0) {
			t.Errorf("NearDuration(%q) = %q, which is no duration: %v", given, got, err)
		}
	}
}

func FuzzNearDuration(f *testing.F) {
	f.Add("1h30")
	f.Add("9999999999999999999 weeks")
	f.Fuzz(func(t *testing.T, given string) {
		near := durationNear(given)
		if d, err := time.ParseDuration(near); near != "" && (err != nil || d <= 0) {
			t.Errorf("NearDuration(%q) = %q: %v, %v", given, near, d, err)
		}
	})
}

func TestNearSize(t *testing.T) {
	for _, c := range []struct {
		number, unit string
		mb           bool
		want         string
	}{
		{"64", "MB", true, "64"}, {"2", "G", true, "2048"}, {"2", "GiB", true, "2048"}, {"512", "k", true, "0.5"}, {"64", "MB", false, "64"},
		{"1.5", "Ti", true, "1572864"}, {"900", "TB", true, "943718400"}, {"5", "x", false, "5"}, {"5", "x", true, ""}, {"5", "Gx", true, ""}, {"", "MB", true, ""}, {"5", "", true, ""},
	} {
		if got := nearSize(c.number, c.unit, c.mb); got != c.want {
			t.Errorf("nearSize(%q, %q, %v) = %q, want %q", c.number, c.unit, c.mb, got, c.want)
		}
	}
}

func TestAdminAddress(t *testing.T) {
	for given, want := range map[string]string{
		"127.0.0.1:0": "", "off": "", ":9463": "", "[::1]:9463": "", "localhost:http": "",
		"": "want HOST:PORT", "9463": "did you mean 127.0.0.1:9463?", "none": "did you mean off?", "127.0.0.1": "want HOST:PORT",
		"127.0.0.1:": `port ""`, "127.0.0.1:65536": `port "65536"`, "127.0.0.1:-1": `port "-1"`, "a:b:c": "want HOST:PORT",
	} {
		var to string
		err := address{&to, "127.0.0.1:9463", true}.Set(given)
		if want == "" && (err != nil || to != given) || want != "" && (err == nil || to != "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("Set(%q) = %v, stored %q, want %q", given, err, to, want)
		}
	}
}
