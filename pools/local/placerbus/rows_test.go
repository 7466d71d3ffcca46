package placerbus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/placer"
)

// Only the marker of a deletion means that an app is gone. Any other row that cannot be used leaves it unknown.
func TestOnlyAMarkerMeansThatAnAppIsGone(t *testing.T) {
	valid := `{"name":"web","pool":"p","instances":1,"version":"v","command":"run","cpus":1,"mem":1,"disk":1}`
	for _, test := range []struct {
		name string
		key  integrity.Key
		want string // type of the event
	}{
		{"valid", integrity.Key{Value: []byte(valid)}, "placer.Row"},
		{"deleted", integrity.Key{Deleted: true}, "placer.RowGone"},
		{"too long", integrity.Key{Value: []byte(valid[:len(valid)-1] + strings.Repeat(" ", message.MaxRow) + "}")}, "placer.RowUnread"},
		{"empty", integrity.Key{}, "placer.RowUnread"},
		{"cut", integrity.Key{Value: []byte(valid[:20])}, "placer.RowUnread"},
		{"wrong type", integrity.Key{Value: []byte(`{"name":"web","pool":"p","instances":"one"}`)}, "placer.RowUnread"},
		{"another name", integrity.Key{Value: []byte(`{"name":"db","pool":"p"}`)}, "placer.RowUnread"},
		{"damaged", integrity.Key{Value: []byte(valid), Damaged: true}, "placer.RowUnread"},
		{"forged", integrity.Key{Value: []byte(valid), Forged: true}, "placer.RowUnread"},
		{"forged marker", integrity.Key{Deleted: true, Forged: true}, "placer.RowUnread"},
		{"damaged marker", integrity.Key{Deleted: true, Damaged: true}, "placer.RowUnread"},
	} {
		test.key.Name = "web"
		e := row(test.key)
		if got := fmt.Sprintf("%T", e); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if e, ok := e.(placer.RowUnread); ok && (e.App != "web" || e.Why == "") {
			t.Errorf("%s: %+v lacks the app or the reason", test.name, e)
		}
	}
}
