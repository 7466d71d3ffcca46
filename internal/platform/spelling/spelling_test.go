package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "web", 3},
		{"web", "web", 0},
		{"nam", "name", 1},
		{"v1.2.3", "v1.3.2", 2},
		{"v1.4.0", "v1.4.1", 1},
		{"v1.4.0", "1.4.0", 1},
		{"kitten", "sitting", 3},
		{"wbe", "web", 2},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("Distance(%q, %q) = %d, and %d the other way; want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	commands := []string{"up", "app", "pool", "state", "status", "explain", "resume"}
	for key, want := range map[string]string{
		"ap": "app", "pu": "up", "stats": "status", "stat": "state", "explian": "explain", "foo": "", "x": "", "": "",
		"resum": "resume", "bogus": "", "Pool": "pool",
	} {
		if got := Nearest(key, commands); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", key, got, want)
		}
	}
	// Three of six letters differ: that is another word.
	if got := Nearest("delete", []string{"decide", "explain"}); got != "" {
		t.Errorf("Nearest(delete) = %q, want none", got)
	}
	if got := Nearest("wbe", []string{"api", "web"}); got != "web" {
		t.Errorf("Nearest(wbe) = %q, want web", got)
	}
}

func TestSuggestDoesNotRepeatTheOnlyName(t *testing.T) {
	for _, c := range []struct {
		name  string
		names []string
		want  string
	}{
		{"defualt", []string{"default"}, "; did you mean default?"},
		{"web", []string{"default"}, " (it has default)"},
		{"defualt", []string{"batch", "default"}, "; did you mean default? (it has batch, default)"},
		{"web", nil, ""},
	} {
		if got := Suggest(c.name, c.names); got != c.want {
			t.Errorf("Suggest(%q, %q) = %q, want %q", c.name, c.names, got, c.want)
		}
	}
}
