package config

import (
	"errors"
	"strings"
	"testing"
)

// Checks that need both files, or another package, run beside the other mistakes, unless their own values are wrong.
func TestEveryMistakeAtOnce(t *testing.T) {
	const (
		tick  = "autoscaling: {tick: -1s}\n"
		limit = ", time_limit: 4s"
	)
	other := errors.New("health: WRONG WORKFLOW")
	for _, c := range []struct {
		name, service, pool string
		checked             bool // the health policy
		want                string
	}{
		{"a wrong tick and a wrong policy", "", tick, true, "POOL:4: autoscaling.tick: is -1s: want 100ms to 8760h\nhealth: WRONG WORKFLOW"},
		{"a short time limit beside an unknown key", "bogus: 1\n", "autoscaling: {tick: 10s}\n" + signals(limit), true,
			"SERVICE:1: bogus: no such key\nPOOL:6: autoscale_signals[0].time_limit: is 4s: want at least 5s\nhealth: WRONG WORKFLOW"},
		{"the tick is wrong", "", tick + signals(limit), true, "POOL:4: autoscaling.tick: is -1s\nhealth: WRONG WORKFLOW"},
		{"the tick is misspelt", "", "autoscaling: {tck: 10s}\n" + signals(", period: 12s"+limit), true, "POOL:4: autoscaling.tck: no such key\nhealth: WRONG WORKFLOW"},
		{"the policy is wrong", "", "health: {detection: 5}\n", false, "POOL:4: health.detection: is 5"},
		{"no setpoint", "autoscaling: {setpoint: x}\n", signals(limit), true,
			"SERVICE:1: autoscaling.setpoint: is \"x\"\nPOOL:5: autoscale_signals[0].time_limit: is 4s: want at least 10s\nhealth: WRONG WORKFLOW"},
		{"not YAML", "", "health: {\n", false, "POOL:4: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			checked := false
			_, _, err := Files{
				Cluster: "prod", Pool: "default",
				Service: File{Path: "SERVICE", Text: []byte(c.service)}, PoolIn: File{Path: "POOL", Text: []byte(goodPool + c.pool)},
			}.Decode(func(Pool) error { checked = true; return other })
			expectLines(t, err, c.want)
			if checked != c.checked {
				t.Errorf("the policy is checked: %t, want %t", checked, c.checked)
			}
		})
	}
}

// expectLines expects an error with as many lines as want has, each with the beginning that want has.
func expectLines(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want)
	}
	got, expected := strings.Split(err.Error(), "\n"), strings.Split(want, "\n")
	for i, line := range expected {
		if len(got) != len(expected) || !strings.HasPrefix(got[i], line) {
			t.Fatalf("the error is\n%v\nwant these lines:\n%s", err, want)
		}
	}
}
