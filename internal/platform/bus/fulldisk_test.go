package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

// After a full disk has space again, the bus accepts writes, in the same process and on the same connection. No
// acknowledged write is lost.
func TestBusAcceptsWritesAfterAFullDisk(t *testing.T) {
	dir, inside := smalldisk.On(t, 128<<20, ".")
	if !inside {
		return
	}
	c := config(t, dir)
	c.Serve, c.User = natsserver.ServeRoles, roles.User{Role: roles.Admin, Cluster: "here"}
	b := open(t, c)
	kv, err := b.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]uint64{}
	put := func(i int) error {
		key := fmt.Sprint("k", i)
		revision, err := kv.Put(t.Context(), key, make([]byte, 4096))
		if err == nil {
			acknowledged[key] = revision
		}
		return err
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	free := smalldisk.Fill(t, dir)
	n := 1
	for ; put(n) == nil; n++ { // memory may still accept some
		if n > 100_000 {
			t.Fatal("the bus takes writes without end on a full disk")
		}
	}
	free()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	limit := time.After(time.Minute)
	for err := put(n); err != nil; err = put(n) {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("there is space, and the bus takes no writes: %v", err)
		}
	}
	for key, revision := range acknowledged {
		if entry, err := kv.Get(t.Context(), key); err != nil || entry.Revision() != revision {
			t.Errorf("%s, which was acknowledged as revision %d, is %v, %v", key, revision, entry, err)
		}
	}
}
