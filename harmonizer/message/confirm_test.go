package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

// Waiting starts of any number are divided into confirmations that are short enough, and no index is lost.
func TestWaitingStartsFitInConfirmations(t *testing.T) {
	longest := strings.Repeat("\x01", MaxID) // six bytes of JSON each
	var apps []api.WaitingStart
	for range 2000 {
		apps = append(apps, api.WaitingStart{App: strings.Repeat("a", 64), Version: longest, Indices: []int{MaxInstances - 1}})
	}
	large := api.WaitingStart{App: "large", Version: longest}
	for i := range MaxInstances {
		large.Indices = append(large.Indices, i)
	}
	for _, tt := range []struct {
		name string
		all  []api.WaitingStart
	}{
		{"none", nil},
		{"many apps", apps},
		{"a large app", []api.WaitingStart{large}},
		{"both", append([]api.WaitingStart{large}, apps...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var read []api.WaitingStart
			for i, part := range ChunkWaiting(tt.all) {
				data, err := json.Marshal(api.Confirmation{Pool: "p", Epoch: 1 << 60, Nudges: []string{}, Waiting: part})
				if err != nil {
					t.Fatal(err)
				}
				c, err := DecodeConfirmation(data)
				if err != nil {
					t.Fatalf("part %d: %v", i, err)
				}
				for _, w := range c.Waiting {
					if last := len(read) - 1; last >= 0 && w.App == "large" && read[last].App == "large" {
						read[last].Indices = append(read[last].Indices, w.Indices...)
					} else {
						read = append(read, w)
					}
				}
			}
			if diff := cmp.Diff(tt.all, read); diff != "" {
				t.Errorf("-want +got:\n%.1000s", diff)
			}
		})
	}
}
