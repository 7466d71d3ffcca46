package bus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

// childEnv makes the test binary a process that opens the bus of the named folder, stores a value, reports that, and
// waits to be killed.
const childEnv = "BUS_TEST_CHILD"

func TestMain(m *testing.M) {
	if data := os.Getenv(childEnv); data != "" {
		if err := child(data); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if _, err := smalldisk.Mount(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func child(data string) error {
	ctx := context.Background()
	b, err := bus.Open(ctx, bus.Config{Data: data, Name: "child", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		return err
	}
	defer b.Close() // an unused bus would lose its lock to the garbage collector
	kv, err := b.JetStream().CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "kept"})
	if err != nil {
		return err
	}
	if _, err := kv.PutString(ctx, "by", "child"); err != nil {
		return err
	}
	fmt.Println("kept")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

// config returns the Config of a folder with a log to the test.
func config(t *testing.T, data string) bus.Config {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return bus.Config{Data: data, Name: t.Name(), Log: log, Serve: natsserver.Serve}
}

func open(t *testing.T, c bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func wantNoBus(t *testing.T, c bus.Config) {
	t.Helper()
	begin := time.Now()
	b, err := bus.Find(t.Context(), c)
	took := time.Since(begin)
	if !errors.Is(err, bus.ErrNoBus) {
		t.Errorf("Find = %v, %v, want ErrNoBus", b, err)
	}
	if took >= bus.JoinTimeout { // it waited for a server
		t.Errorf("Find took %v, want an answer at once", took)
	}
}

func TestFirstProcessRunsServerOthersConnect(t *testing.T) {
	c := config(t, filepath.Join(t.TempDir(), "data"))
	wantNoBus(t, c)
	if _, err := os.Stat(c.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find made the folder: %v", err)
	}
	first, second := open(t, c), open(t, c)
	found, err := bus.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	if !first.Embedded() || second.Embedded() || found.Embedded() {
		t.Errorf("embedded: %v, %v, %v, want only the first", first.Embedded(), second.Embedded(), found.Embedded())
	}
	if got := first.Conn().MaxPayload(); got != bus.MaxPayload {
		t.Errorf("payload limit = %d, want %d", got, bus.MaxPayload)
	}
	sub, err := second.Conn().SubscribeSync("greeting")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Conn().FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	if err := found.Conn().Publish("greeting", make([]byte, bus.MaxPayload)); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(patience); err != nil {
		t.Error(err)
	}
	second.Close()
	found.Close()
	first.Close()
	first.Close()
	wantNoBus(t, c)
}

func TestFolderHasAllFilesAndIsPrivate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := config(t, t.TempDir())
	if err := os.Mkdir(filepath.Join(c.Data, "bus"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := open(t, c)
	if _, err := b.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "x"}); err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{}
	for _, name := range []string{"", "lock", "address.json", "jetstream"} {
		info, err := os.Stat(filepath.Join(c.Data, "bus", name))
		if err != nil {
			t.Fatal(err)
		}
		modes[name] = info.Mode().Perm()
	}
	want := map[string]fs.FileMode{"": 0o700, "lock": 0o600, "address.json": 0o600, "jetstream": modes["jetstream"]}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Join(c.Data, "bus"))
	if err != nil || len(entries) != 3 {
		t.Errorf("bus folder = %v, %v, want three entries", entries, err)
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("temporary folder = %v, %v, want it empty", entries, err)
	}
}

func TestTokenIsNeeded(t *testing.T) {
	c := config(t, t.TempDir())
	open(t, c)
	data, err := os.ReadFile(filepath.Join(c.Data, "bus", "address.json"))
	if err != nil {
		t.Fatal(err)
	}
	var address struct{ URL, Token string }
	if err := json.Unmarshal(data, &address); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address.URL, "nats://127.0.0.1:") {
		t.Errorf("url = %q, want loopback", address.URL)
	}
	for name, token := range map[string]string{"none": "", "wrong": address.Token + "x"} {
		t.Run(name, func(t *testing.T) {
			conn, err := nats.Connect(address.URL, nats.Token(token))
			if err == nil {
				conn.Close()
			}
			if !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("connect = %v, want an authorization error", err)
			}
		})
	}
}

func TestManyProcessesStartOneServer(t *testing.T) {
	c := config(t, t.TempDir())
	buses := make([]*bus.Bus, 8)
	var wg sync.WaitGroup
	for i := range buses {
		wg.Go(func() {
			b, err := bus.Open(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			buses[i] = b
		})
	}
	wg.Wait()
	servers := 0
	for _, b := range buses {
		if b == nil {
			t.FailNow()
		}
		t.Cleanup(b.Close)
		if b.Embedded() {
			servers++
		}
		if got, want := b.Conn().ConnectedUrl(), buses[0].Conn().ConnectedUrl(); got != want {
			t.Errorf("connected to %s and to %s", got, want)
		}
	}
	if servers != 1 {
		t.Errorf("%d servers, want 1", servers)
	}
}

func TestKilledServerLeavesNoValidAddressAndKeepsData(t *testing.T) {
	c := config(t, t.TempDir())
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+c.Data)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "kept\n" {
		t.Fatalf("child printed %q, %v", line, err)
	}
	survivor, err := bus.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	survivor.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error reports the kill
	if _, err := os.Stat(filepath.Join(c.Data, "bus", "address.json")); err != nil {
		t.Errorf("no address was left, the test shows nothing: %v", err)
	}
	wantNoBus(t, c)
	b := open(t, c)
	if !b.Embedded() {
		t.Error("the old address was believed")
	}
	kv, err := b.JetStream().KeyValue(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "by"); err != nil || string(entry.Value()) != "child" {
		t.Errorf("value = %v, %v, want child", entry, err)
	}
}

func TestConfiguredServerUsesNoFolder(t *testing.T) {
	elsewhere := config(t, t.TempDir())
	open(t, elsewhere)
	data, err := os.ReadFile(filepath.Join(elsewhere.Data, "bus", "address.json"))
	if err != nil {
		t.Fatal(err)
	}
	var address struct{ URL, Token string }
	if err := json.Unmarshal(data, &address); err != nil {
		t.Fatal(err)
	}
	c := config(t, filepath.Join(t.TempDir(), "absent"))
	c.NATS.Servers = []string{strings.Replace(address.URL, "nats://", "nats://"+address.Token+"@", 1)}
	for name, connect := range map[string]func(context.Context, bus.Config) (*bus.Bus, error){"open": bus.Open, "find": bus.Find} {
		t.Run(name, func(t *testing.T) {
			b, err := connect(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if b.Embedded() {
				t.Error("a server was started")
			}
		})
	}
	if _, err := os.Stat(c.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was touched: %v", err)
	}
}

func TestWaitsForAServerThatStarts(t *testing.T) {
	c := config(t, t.TempDir())
	if err := os.Mkdir(filepath.Join(c.Data, "bus"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := flock.Lock(filepath.Join(c.Data, "bus", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for name, connect := range map[string]func(context.Context, bus.Config) (*bus.Bus, error){"open": bus.Open, "find": bus.Find} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := connect(ctx, c)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("process %d runs the bus", os.Getpid())) {
				t.Errorf("err = %v, want a deadline that names the holder", err)
			}
		})
	}
	opened := make(chan *bus.Bus)
	go func() {
		b, err := bus.Open(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		opened <- b
	}()
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if b := <-opened; b != nil {
		b.Close()
	}
}
