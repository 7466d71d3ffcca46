package aws

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools/provider"
)

func siteOf(groups ...provider.Group) provider.Site {
	return provider.Site{
		Cluster: "prod", Pool: "web", Groups: groups, Isolation: "sg-1",
		Others: func() map[string][]provider.Group { return nil },
		Account: provider.Account{
			Region: "us-west-2", Events: "queue", Keys: func() (string, string, error) { return "access", "secret", nil },
		},
	}
}

func TestConfigOfASite(t *testing.T) {
	listed := &groupSelector{S3: &fleetList{Bucket: "b", Prefix: "p"}, kind: SpotFleet}
	site := siteOf(&groupSelector{Tag: "weir:pool", kind: AutoScaling}, listed)
	site.Others = func() map[string][]provider.Group {
		return map[string][]provider.Group{"b": {&groupSelector{Tag: "x", kind: SpotFleet}, listed}, "a": {&groupSelector{Tag: "y", kind: AutoScaling}}}
	}
	got, err := configOf(site)
	if err != nil {
		t.Fatal(err)
	}
	if access, secret, err := got.Keys(); access != "access" || secret != "secret" || err != nil {
		t.Errorf("keys are %q, %q, %v", access, secret, err)
	}
	got.Keys = nil
	want := Config{
		Cluster: "prod", Pool: "web", Region: "us-west-2", Queue: "queue",
		Groups: []Selector{
			{Kind: AutoScaling, Tag: "weir:pool", Isolation: "sg-1"}, {Kind: SpotFleet, S3Bucket: "b", S3Prefix: "p", Isolation: "sg-1"},
		},
		Others: []Claim{{"a", AutoScaling, "y"}, {"b", SpotFleet, "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configOf (-want +got):\n%s", diff)
	}
}

func TestKeysThatCannotBeReadAreAnError(t *testing.T) {
	site, away := siteOf(&groupSelector{Tag: "weir:pool", kind: AutoScaling}), errors.New("no such file")
	site.Account.Keys = func() (string, string, error) { return "", "", away }
	if _, err := ProviderKind().Open(t.Context(), site); !errors.Is(err, away) {
		t.Errorf("Open = %v, want %v", err, away)
	}
}
