package bootstrapd

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/config"
)

func TestLoadNamesTheOwnerOfLocalMachines(t *testing.T) {
	for _, tt := range []struct{ name, groups, want string }{
		{"local", "local: {name: g, min: 1, max: 2, machine: {cpus: 1, mem: 256}}", "weir up --pool-file FILE"},
		{"cloud", `asg: {tag: "weir:pool"}`, ""},
	} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		err := os.WriteFile(file, []byte("resource_groups: [{"+tt.groups+"}]\nscaling_limits: {min_capacity: 1, max_capacity: 2, max_weight_to_add: 2, max_weight_to_remove: 2}\n"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := config.ReadPool(file, "c", "p")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		Process{Log: slog.New(slog.NewTextHandler(&out, nil))}.nameOwner(pool)
		if got := out.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: log %q, want %q", tt.name, got, tt.want)
		}
	}
}
