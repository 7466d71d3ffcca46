package resolve

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// BenchmarkPlaces measures the question of a pool of 2000 nodes in 5 groups, and a decision with an answer to it.
func BenchmarkPlaces(b *testing.B) {
	c := placesCase(0, 0, 1500, api.Places{Waiting: 1, New: more("g0", 1, 1)})
	c.Groups, c.Nodes, c.Has = nil, nil, map[string]int{}
	machines := map[string]api.Machine{}
	for i := range 5 {
		id := fmt.Sprint("g", i)
		c.Groups, c.Has[id] = append(c.Groups, api.GroupTarget{ID: id, Target: 400, Max: 1000}), 400
		machines[id] = api.Machine{Resources: resource.Vector{1}, Weight: 1}
	}
	for i := range 2000 {
		c.Nodes = append(c.Nodes, api.Candidate{
			ID: fmt.Sprintf("i-%017x", i), Group: fmt.Sprint("g", i%5), Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: i % 30, Uptime: time.Hour, Safe: true,
		})
		if i%10 == 0 {
			c.Places.Leave = append(c.Places.Leave, c.Nodes[i].ID)
		}
	}
	c.Joined, c.Input.Capacity.Target, c.Input.Capacity.Joined = 2000, 2000, 2000
	b.Run("question", func(b *testing.B) {
		for b.Loop() {
			Question(c, machines, nil, nil)
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			Resolve(c)
		}
	})
}
