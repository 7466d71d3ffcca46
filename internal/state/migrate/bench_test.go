package migrate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/state/migrate"
)

// BenchmarkRecords copies records of 13.5 kB, as a pool of 2000 machines has them. One operation is one record.
func BenchmarkRecords(b *testing.B) {
	s := bustest.Serve(b, server.Options{JetStream: true, StoreDir: b.TempDir()})
	js, err := jetstream.New(bustest.Connect(b, s.ClientURL()))
	if err != nil {
		b.Fatal(err)
	}
	c := jetstream.StreamConfig{Name: "WEIR_DECISIONS", Subjects: []string{"weir.*.decision.*"}, AllowDirect: true}
	if _, err := js.CreateStream(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	record := make([]byte, 13_500)
	random := rand.NewChaCha8([32]byte{})
	for range b.N {
		_, _ = random.Read(record) // never fails
		if _, err := js.Publish(b.Context(), "weir.here.decision.web", record); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(record)))
	b.ResetTimer()
	r, err := migrate.Run(b.Context(), migrate.Config{JS: js, Cluster: cluster, Holder: "test"})
	if err != nil || len(r.Pools) != 1 || r.Pools[0].Records != b.N {
		b.Fatalf("%+v, %v, want %d records", r, err, b.N)
	}
}
