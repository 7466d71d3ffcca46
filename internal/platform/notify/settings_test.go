package notify

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckAllReportsEveryMistake(t *testing.T) {
	valid := Settings{Name: "ok", URL: "https://h/x"}
	if ps := CheckAll([]Settings{valid, {Name: "file", URLFile: "/x", Format: formatSlack, Severity: "error"}}); ps != nil {
		t.Errorf("valid sections: %v", ps)
	}
	var got []string
	for _, p := range CheckAll([]Settings{
		valid, valid, {Name: "a/b", URL: "https://u:p@h/", URLFile: "x", SecretFile: "y", Format: "xml"},
		{Name: "c", URL: "ftp://h", Body: "{", Format: formatJSON, Kinds: []string{"x"}, Pools: []string{"a b"}, Events: []string{"["}, Severity: "loud"},
	}) {
		got = append(got, p.Key)
	}
	slices.Sort(got)
	want := "[1].name [2].format [2].name [2].secret_file [2].url [2].url_file [3].body [3].body [3].events [3].kinds [3].pools [3].severity [3].url"
	if strings.Join(got, " ") != want {
		t.Errorf("mistakes at %s, want %s", got, want)
	}
	if ps := CheckAll(make([]Settings, maxTargets+1)); !strings.Contains(ps.Error(), "at most 32") {
		t.Errorf("too many targets: %v", ps)
	}
}
