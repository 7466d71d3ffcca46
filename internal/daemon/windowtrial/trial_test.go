package windowtrial_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
)

const pool = `resource_groups: [{local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}}]
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 3, max_weight_to_remove: 3}
autoscale_signals: [{app: shop}]
`

func TestUnknownAppIsNamed(t *testing.T) {
	s, p, err := config.Files{
		Cluster: "c", Pool: "web", Service: config.File{Path: "weir.yaml", Missing: true}, PoolIn: config.File{Path: "web.yaml", Text: []byte(pool)},
	}.Decode()
	if err != nil {
		t.Fatal(err)
	}
	_, err = windowtrial.New(s, p, "shp")
	if want := `pool web has no app "shp"; did you mean shop?; it has __default__, shop`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := windowtrial.New(s, p, "shop"); err != nil {
		t.Error(err)
	}
}
