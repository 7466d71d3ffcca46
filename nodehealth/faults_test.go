package nodehealth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

// A condition with a fault neither fails its node nor ends a failure. The other conditions of the node count.
func TestFaultsOfConditions(t *testing.T) {
	facts := func(other, failed bool) string {
		return fmt.Sprintf(`{"id":"n","pool":"p","boot_id":"b","tasks":0,"resources":{"cpus":4,"mem":1,"disk":1},"allocated":{"cpus":0,"mem":0,"disk":0},`+
			`"conditions":[{"type":"A","failed":false},{"type":"B","failed":%v,"unknown":false,"why":"b"},{"type":"C","failed":%v}]}`, failed, other)
	}
	node := message.Node{Pool: "p", Name: "n"}
	decode := func(text string) (api.NodeFacts, error) { return wire.FactsOf(node, []byte(text)) }
	rules := jsonfault.Rules{Optional: "unknown why", Free: "why", Except: []jsonfault.Except{
		{Field: "why", Faults: []jsonfault.Fault{jsonfault.Type}, Usable: true, Why: "a text for people decides nothing"},
	}}
	n := 0
	for _, other := range []bool{false, true} {
		for _, failed := range []bool{false, true} {
			last, err := decode(facts(other, failed))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range jsonfault.Under("conditions[1]", jsonfault.Cases(facts(other, failed))) {
				n++
				f, err := decode(c.Text)
				if err != nil {
					f = wire.Unreadable(last, err)
				} else {
					f.Conditions = wire.KeepConditions(f.Conditions, last.Conditions)
				}
				o := beat(f)
				want := api.CheckOK
				switch usable := rules.Usable("conditions[1]", c); {
				case other, failed && (usable || c.Fault == jsonfault.NotJSON): // last facts that are known count
					want = api.CheckFail
				case failed:
					want = api.CheckUnknown
				}
				if o.Verdict != want || o.Verdict == api.CheckFail && other != strings.Contains(o.Reason, "C") {
					t.Errorf("failed %v and %v, %v: %+v, want %v", failed, other, c, o, want)
				}
				if named := o.Partly != ""; named == rules.Usable("conditions[1]", c) {
					t.Errorf("failed %v and %v, %v: partly %q", failed, other, c, o.Partly)
				}
			}
		}
	}
	t.Logf("%d faulty conditions", n)
}
