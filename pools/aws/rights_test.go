package aws

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

func rightsOf(t *testing.T, p *Provider, repairs bool) map[string]provider.Right {
	t.Helper()
	all, err := p.Rights(t.Context(), repairs)
	if err != nil {
		t.Fatal(err)
	}
	byAction := map[string]provider.Right{}
	for _, r := range all {
		byAction[r.Action] = r
	}
	return byAction
}

// A denied right is found by a dry run. No test changes a machine.
func TestRightsAreTestedWithoutEffect(t *testing.T) {
	s, p := openFleet(t, awsfake.SpotFleet{Target: 3, Specs: small})
	s.Deny("RebootInstances", "")
	got := rightsOf(t, p, true)
	for action, want := range map[string]provider.RightResult{
		"reads of a tick": provider.Granted, "ec2:TerminateInstances": provider.Granted, "ec2:CreateTags": provider.Granted,
		"ec2:RebootInstances": provider.Denied, "ec2:ModifySpotFleetRequest": provider.Untested,
	} {
		if r, ok := got[action]; !ok || r.Result != want {
			t.Errorf("right %s is %+v, want result %d", action, r, want)
		}
	}
	if why := got["ec2:RebootInstances"].Why; !strings.Contains(why, "ec2:RebootInstances") || !strings.Contains(why, "UnauthorizedOperation") {
		t.Errorf("the denial is %q, want the action and the word of AWS", why)
	}
	pass(s)
	if _, now := one(t, p); now.Target != 3 || living(now) != 3 {
		t.Errorf("after the tests the target is %d with %d instances, want 3 and 3", now.Target, living(now))
	}
}

// Without an instance, no dry run is sent. Rights of repairs are tested only on request.
func TestRightsWithoutInstance(t *testing.T) {
	s, p := openGroup(t, awsfake.ASG{Max: 9})
	got := rightsOf(t, p, true)
	for _, action := range []string{"ec2:StopInstances", "ec2:StartInstances", "autoscaling:SetDesiredCapacity"} {
		if r, ok := got[action]; !ok || r.Result != provider.Untested || r.Why == "" {
			t.Errorf("right %s is %+v, want untested with a reason", action, r)
		}
	}
	if n := count(s, "StopInstances"); n != 0 {
		t.Errorf("%d dry runs without an instance", n)
	}
	if r, ok := rightsOf(t, p, false)["ec2:StopInstances"]; ok {
		t.Errorf("right %+v is tested without repairs", r)
	}
}

// deaf is a server that carries out dry runs.
type deaf struct{ awstest.Client }

func (d deaf) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte("DryRun=true&"), nil)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return d.Client.Do(r)
}

// A server that carries out the dry run of a read receives no dry run of a write.
func TestRightsOfServerWithoutDryRuns(t *testing.T) {
	s := awstest.NewDirect(t, awsfake.Config{})
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-web", Tags: map[string]string{tag: named}, Target: 3, Specs: small})
	cfg := configFor(s, SpotFleet)
	cfg.Client = deaf{awstest.Client{Server: s}}
	if r := rightsOf(t, open(t, cfg), true)["ec2:TerminateInstances"]; r.Result != provider.Untested || !strings.Contains(r.Why, "dry run of a read") {
		t.Errorf("right %+v, want untested", r)
	}
	if n := count(s, "TerminateInstances"); n != 0 {
		t.Errorf("%d instances were terminated", n)
	}
}
