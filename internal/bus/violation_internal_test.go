package bus

import "testing"

func TestOfStream(t *testing.T) {
	for _, tc := range []struct {
		filter, subject string
		want            bool
	}{
		{"", "$JS.API.STREAM.INFO.KV_a", true},
		{"", "$JS.API.STREAM.INFO.KV_ab", false},
		{"", "$JS.API.CONSUMER.CREATE.KV_a.x.$KV.a.k", true},
		{"", "$JS.API.INFO", true},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a.$KV.a.k", true},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a.$KV.a.j", false},
		{"$KV.a.k", "$JS.API.DIRECT.GET.KV_a", true},
		{"", "KV_a", false},
	} {
		if got := ofStream("KV_a", tc.filter)(tc.subject); got != tc.want {
			t.Errorf("of the stream, read of %q: %s = %v, want %v", tc.filter, tc.subject, got, tc.want)
		}
	}
}
