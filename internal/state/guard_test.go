package state_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// disk has three folders: the data folder of a bus, which a test damages between two runs; a copy of it; and the
// holder's folder of seen revisions.
type disk struct{ data, old, seen string }

func newDisk(t *testing.T) disk {
	return disk{data: t.TempDir(), old: filepath.Join(t.TempDir(), "old"), seen: t.TempDir()}
}

func (d disk) stream(bucket string) string {
	return filepath.Join(d.data, "bus", "jetstream", "WEIR", "streams", "KV_"+bucket)
}

// restore replaces one folder by another.
func restore(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// run runs the bus, calls do, and stops the bus.
func (d disk) run(t *testing.T, do func(js jetstream.JetStream)) {
	t.Helper()
	b := open(t, d.data)
	defer b.Close()
	do(b.JetStream())
}

// guarded returns the pool's orders with the holder's guard.
func (d disk) guarded(t *testing.T, js jetstream.JetStream) (*state.Orders, *integrity.Guard) {
	t.Helper()
	g, err := state.OpenGuard(js, "here", "web", d.seen, "test", testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if _, err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return openOrders(t, js, "web").Guarded(g), g
}

func (d disk) read(t *testing.T, js jetstream.JetStream) (api.Orders, error) {
	t.Helper()
	o, _ := d.guarded(t, js)
	return o.Read(t.Context(), noon)
}

// alarmOf returns the pool's alarm and its problems by key.
func alarmOf(t *testing.T, js jetstream.JetStream) (integrity.Alarm, []string) {
	t.Helper()
	all, err := integrity.Alarms(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	if len(all) == 0 {
		return integrity.Alarm{}, nil
	}
	for _, p := range all[0].Problems {
		keys = append(keys, p.Key)
	}
	return all[0], keys
}

func saveState(t *testing.T, js jetstream.JetStream, body string) {
	t.Helper()
	h, err := state.OpenHolder(t.Context(), js, leased(t, js, "holder"), nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Memory().Save(t.Context(), []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// cutShort drops the end of a stream's block, from a subject on.
func cutShort(t *testing.T, folder, subject string) {
	t.Helper()
	path := filepath.Join(folder, "msgs", "1.blk")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := bytes.Cut(data, []byte(subject))
	if !ok {
		t.Fatalf("the block has no %s", subject)
	}
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "msgs", "index.db")); err != nil {
		t.Fatal(err)
	}
}

// TestLostOrdersAreReported restores an old store, or deletes the bucket, between two runs. A pause that may be lost
// stops everything. Another order that may be lost keeps the pool from shrinking. An alarm names the keys until an
// operator accepts it.
func TestLostOrdersAreReported(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, d disk){
		"an older copy": func(t *testing.T, d disk) { restore(t, d.old, filepath.Join(d.data, "bus", "jetstream")) },
		"no bucket": func(t *testing.T, d disk) {
			if err := os.RemoveAll(d.stream(poolBucket)); err != nil {
				t.Fatal(err)
			}
		},
		"a block cut short": func(t *testing.T, d disk) {
			cutShort(t, d.stream(poolBucket), "$KV."+poolBucket+".order.")
		},
	} {
		for _, order := range []string{"pause", "offset", "pin", "remove.i-1"} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				d := newDisk(t)
				d.run(t, func(js jetstream.JetStream) { saveState(t, js, "old") })
				restore(t, filepath.Join(d.data, "bus", "jetstream"), d.old)
				d.run(t, func(js jetstream.JetStream) {
					o := openOrders(t, js, "web")
					n := note(noon.Add(time.Hour))
					var err error
					switch order {
					case "pause":
						err = o.Pause(t.Context(), n)
					case "offset":
						err = o.SetOffset(t.Context(), api.Offset{Note: n, Weight: 3})
					case "pin":
						err = o.SetPin(t.Context(), api.Pin{Note: n, Target: 4})
					case "remove.i-1":
						err = o.Remove(t.Context(), api.Removal{Note: n, Node: "i-1"})
					}
					if err != nil {
						t.Fatal(err)
					}
					saveState(t, js, "new")
					if got, err := d.read(t, js); err != nil || got.LossSuspected != "" {
						t.Fatalf("before the damage: %+v, %v", got, err)
					}
				})
				damage(t, d)
				d.run(t, func(js jetstream.JetStream) {
					got, err := d.read(t, js)
					key := "order." + order
					switch {
					case order == "pause" && (err == nil || !strings.Contains(err.Error(), key)):
						t.Errorf("Read = %v, want an error that names %s", err, key)
					case order != "pause" && (err != nil || got.LossSuspected == ""):
						t.Errorf("Read = %+v, %v, want a doubt", got, err)
					}
					alarm, keys := alarmOf(t, js)
					if alarm.Reader != "pool.web" || !slices.Contains(keys, key) || !slices.Contains(keys, "state") {
						t.Errorf("alarm of %q for %q, want pool.web for %s and state", alarm.Reader, keys, key)
					}
					unknown := fmt.Sprintf(`{"digest":%q,"by":"ann","reason":"x","at":"2026-03-01T12:00:00Z","only":["pin"]}`, alarm.Digest)
					if _, err := kvbucket.New(js, poolBucket).Put(t.Context(), "accept.damage", []byte(unknown)); err != nil {
						t.Fatal(err)
					}
					if got, err := d.read(t, js); err == nil || !strings.Contains(err.Error(), `unknown field "only"`) {
						t.Errorf("by an acceptance with an unknown key: %+v, %v, want an error with the key", got, err)
					}
					if err := integrity.PoolReader("here", "web").Accept(t.Context(), js, alarm, integrity.Acceptance{By: "ann", Reason: "x", At: time.Now()}); err != nil {
						t.Fatal(err)
					}
					if got, err := d.read(t, js); err != nil || got.LossSuspected != "" {
						t.Errorf("after the acceptance: %+v, %v", got, err)
					}
					if _, keys := alarmOf(t, js); len(keys) > 0 {
						t.Errorf("after the acceptance the alarm names %q", keys)
					}
				})
			})
		}
	}
}

// TestOrdersThatEndAreNotLost clears, expires and completes orders between two readings.
func TestOrdersThatEndAreNotLost(t *testing.T) {
	d := newDisk(t)
	d.run(t, func(js jetstream.JetStream) {
		o, _ := d.guarded(t, js)
		give(t, openOrders(t, js, "web"), note(noon.Add(time.Hour)))
		if _, err := o.Read(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
	})
	d.run(t, func(js jetstream.JetStream) { // another process, like the command line
		o := openOrders(t, js, "web")
		if err := o.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := o.Removed(t.Context(), "i-1"); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Read(t.Context(), noon.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	})
	d.run(t, func(js jetstream.JetStream) {
		if got, err := d.read(t, js); err != nil || got.LossSuspected != "" || got.Offset != nil || len(got.Removals) > 0 {
			t.Errorf("Read = %+v, %v, want no order and no doubt", got, err)
		}
		if _, keys := alarmOf(t, js); len(keys) > 0 {
			t.Errorf("the alarm names %q", keys)
		}
	})
}

// TestDamagedOrderIsNamed flips bytes of a stored order. Readers soon name its key. No command writes over it,
// because that would end all writes to the bucket.
func TestDamagedOrderIsNamed(t *testing.T) {
	d := newDisk(t)
	d.run(t, func(js jetstream.JetStream) {
		if err := openOrders(t, js, "web").Pause(t.Context(), note(noon.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
	})
	path := filepath.Join(d.stream(poolBucket), "msgs", "1.blk")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("the sale"))
	if at < 0 {
		t.Fatal("the block has no order")
	}
	data[at] ^= 0xff
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	d.run(t, func(js jetstream.JetStream) {
		o := openOrders(t, js, "web")
		for what, do := range map[string]func() error{
			"Read":   func() error { _, err := o.Read(t.Context(), noon); return err },
			"List":   func() error { _, err := o.List(t.Context()); return err },
			"Resume": func() error { return o.Resume(t.Context()) },
			"Pause":  func() error { return o.Pause(t.Context(), note(noon)) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "order.pause: the store cannot read its value") {
				t.Errorf("%s = %v, want an error that names the key", what, err)
			}
		}
		if err := o.SetOffset(t.Context(), api.Offset{Note: note(noon), Weight: 1}); err != nil {
			t.Errorf("another order: %v", err)
		}
	})
}

// TestLostDrainRecordIsReported loses the block with a drain record, and then writes go on, so that only the record
// shows the loss. The holder's own writes are what the next takeover compares with.
func TestLostDrainRecordIsReported(t *testing.T) {
	for name, tt := range map[string]struct {
		ended bool // the drain ends before the loss
		want  []string
	}{
		"a running drain": {false, []string{"drain.i-1"}},
		"an ended drain":  {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			d.run(t, func(js jetstream.JetStream) {
				_, g := d.guarded(t, js)
				h, err := state.OpenHolder(t.Context(), js, leased(t, js, "holder"), g, "here", "web")
				if err != nil {
					t.Fatal(err)
				}
				put(t, h, recordOf("i-1"))
				if tt.ended {
					if err := h.Records().Delete(t.Context(), "i-1"); err != nil {
						t.Fatal(err)
					}
				}
			})
			if !tt.ended {
				cutShort(t, d.stream(poolBucket), "$KV."+poolBucket+".drain.i-1")
			}
			d.run(t, func(js jetstream.JetStream) {
				for range 20 { // other writes hide the lower sequence of the bucket
					if _, err := kvbucket.New(js, poolBucket).Put(t.Context(), "trial.app", []byte("{}")); err != nil {
						t.Fatal(err)
					}
				}
				got, err := d.read(t, js)
				if err != nil || (got.LossSuspected != "") != (len(tt.want) > 0) {
					t.Errorf("Read = %+v, %v, want suspected loss of %q", got, err, tt.want)
				}
				if _, keys := alarmOf(t, js); !slices.Equal(keys, tt.want) {
					t.Errorf("the alarm names %q, want %q", keys, tt.want)
				}
			})
		})
	}
}

// TestAlarmIsPublishedAgain deletes an alarm, as the restore of its bucket does. Its reader publishes it again.
func TestAlarmIsPublishedAgain(t *testing.T) {
	t.Parallel()
	newDisk(t).run(t, func(js jetstream.JetStream) {
		openOrders(t, js, "web")
		saveState(t, js, "{}")
		_, g := newDisk(t).guarded(t, js)
		g.Report("state", "revision 7", "nothing")
		g.Publish(t.Context())
		if a, _ := alarmOf(t, js); a.Reader != "pool.web" {
			t.Fatalf("the alarm is %+v, want one of pool.web", a)
		}
		stored := kvbucket.New(js, poolBucket)
		e, err := stored.Get(t.Context(), "alarm")
		if err == nil {
			_, err = stored.Delete(t.Context(), "alarm", e.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		await.True(t, "the alarm again", func() bool {
			g.Publish(t.Context())
			a, _ := alarmOf(t, js)
			return a.Reader == "pool.web"
		})
	})
}
