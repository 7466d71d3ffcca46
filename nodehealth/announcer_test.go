package nodehealth

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestAlarmIsPublishedOnceUntilItEnds(t *testing.T) {
	a := newAnnouncer(kitOf(World{Bus: silentBus{}}))
	now := time.Unix(1000, 0)
	a.alarm(now, api.HealthAlarm{Key: "memory", Why: "first"})
	a.alarm(now.Add(time.Minute), api.HealthAlarm{Key: "memory", Why: "second"})
	if got := a.activeAlarms(); len(got) != 1 || !got[0].Since.Equal(now) || got[0].Why != "second" {
		t.Errorf("standing() = %+v, want one since the first, with the second reason", got)
	}
	delete(a.alarms, "memory")
	a.alarm(now.Add(time.Hour), api.HealthAlarm{Key: "memory"})
	if sent := a.takeNotifications(); len(sent) != 2 || a.alarmKinds["memory"] != 2 || sent[0].Pool != "p" {
		t.Errorf("published %+v, want two", sent)
	}
}

// An alarm of the judge ends with its cause, an alarm of the loop by the loop alone.
func TestForgetEndsAlarmsWithoutTheirCause(t *testing.T) {
	for key, stays := range map[string]bool{
		"breaker": false, "path": false, "unknown:n1": false, "zone:a": false, "fence:n1": false, "quarantine:n1": false,
		"memory": true, "owner": true, "forgotten": true,
	} {
		a := newAnnouncer(kitOf(World{}))
		a.alarm(time.Unix(1000, 0), api.HealthAlarm{Key: key, Node: "n1"})
		a.forget(time.Unix(1001, 0), judge.New(plain(judge.Action{Name: api.ActionReboot}).WithDefaults()))
		if got := len(a.activeAlarms()) == 1; got != stays {
			t.Errorf("alarm %s stays: %v, want %v", key, got, stays)
		}
	}
}

// silentBus accepts nothing: published findings stay in the outbox.
type silentBus struct{ Bus }
