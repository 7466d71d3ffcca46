package aws

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// statement is one statement of the policy. In JSON, Resource, Condition and the actions are one
// value or a list.
type statement struct {
	Sid       string
	Action    any
	Resource  any
	Condition map[string]map[string]any
}

func (s statement) actions() (actions []string) {
	if one, ok := s.Action.(string); ok {
		return []string{one}
	}
	for _, a := range s.Action.([]any) {
		actions = append(actions, a.(string))
	}
	return actions
}

func policy(t *testing.T) map[string]statement {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "aws", "iam-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Statement []statement }
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]statement)
	for _, s := range p.Statement {
		found[s.Sid] = s
	}
	return found
}

// The requests of the adapter, the actions in its errors, and the actions that the policy allows
// are the same.
func TestPolicy(t *testing.T) {
	var allowed []string
	for sid, s := range policy(t) {
		if sid != "Releases" && sid != "ListReleases" && sid != "ReadMetrics" { // these are for weir bootstrap and a source of metrics
			allowed = append(allowed, s.actions()...)
		}
	}
	slices.Sort(allowed)
	allowed = slices.Compact(allowed) // for instances of groups and for those of fleets
	called, named := actions(t)
	if diff := gocmp.Diff(called, allowed); diff != "" {
		t.Errorf("-called +allowed:\n%s", diff)
	}
	if diff := gocmp.Diff(called, named); diff != "" {
		t.Errorf("-called +named in errors:\n%s", diff)
	}
}

// actions returns the calls of the SDK's clients in the package's code, and the actions that the
// code names.
func actions(t *testing.T) (called, named []string) {
	t.Helper()
	rights := map[string]string{"s3:ListObjectsV2": "s3:ListBucket"}
	action := regexp.MustCompile(`^(ec2|autoscaling|elasticloadbalancing|sqs|s3):[A-Z][A-Za-z0-9]+$`)
	read := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr: // c.ec2.DescribeTags(...)
			method, _ := n.Fun.(*ast.SelectorExpr)
			if method == nil {
				break
			}
			client, _ := method.X.(*ast.SelectorExpr)
			if client == nil {
				break
			}
			if a := client.Sel.Name + ":" + method.Sel.Name; action.MatchString(a) {
				called = append(called, cmp.Or(rights[a], a))
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && action.MatchString(text) {
				named = append(named, text)
			}
		}
		return true
	}
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, read)
	}
	slices.Sort(called)
	slices.Sort(named)
	return slices.Compact(called), slices.Compact(named)
}

// A source of metrics has one right, which package metrics/cloudwatch names in its errors.
func TestPolicyOfMetrics(t *testing.T) {
	want := statement{Sid: "ReadMetrics", Action: "cloudwatch:GetMetricData", Resource: "*"}
	if diff := gocmp.Diff(want, policy(t)["ReadMetrics"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// weir bootstrap reads releases. To learn that a release is missing it needs the right to list
// without a condition.
func TestPolicyOfReleases(t *testing.T) {
	p := policy(t)
	for sid, want := range map[string]statement{
		"Releases":     {Sid: "Releases", Action: "s3:GetObject", Resource: "arn:aws:s3:::SIGNALS_BUCKET/SIGNALS_PREFIX/*"},
		"ListReleases": {Sid: "ListReleases", Action: "s3:ListBucket", Resource: "arn:aws:s3:::SIGNALS_BUCKET"},
	} {
		if diff := gocmp.Diff(want, p[sid]); diff != "" {
			t.Errorf("%s, -want +got:\n%s", sid, diff)
		}
	}
}

// A Spot Fleet request gives its instances none of its own tags.
func TestPolicyOfFleetInstances(t *testing.T) {
	want := map[string]map[string]any{"StringLike": {"aws:ResourceTag/" + fleetTag: "sfr-*"}}
	for _, sid := range []string{"EndInstancesOfFleets", "RepairInstancesOfFleets"} {
		if diff := gocmp.Diff(want, policy(t)[sid].Condition); diff != "" {
			t.Errorf("condition of %s, -want +got:\n%s", sid, diff)
		}
	}
}

// Reading is one statement, and changing machines is in others. An operator that only checks
// health leaves those out.
func TestPolicyOfRepairs(t *testing.T) {
	p := policy(t)
	for _, action := range p["ReadHealth"].actions() {
		if !strings.Contains(action, ":Describe") {
			t.Errorf("%s among what only reads", action)
		}
	}
	for sid, want := range map[string]map[string]map[string]any{
		"RepairInstancesOfGroups": {"Null": {"aws:ResourceTag/" + groupTag: "false"}},
		"NoteRepairsOfGroups": {
			"ForAllValues:StringEquals": {"aws:TagKeys": repairTag},
			"Null":                      {"aws:TagKeys": "false", "aws:ResourceTag/" + groupTag: "false"},
		},
		"NoteRepairsOfFleets": {
			"ForAllValues:StringEquals": {"aws:TagKeys": repairTag}, "Null": {"aws:TagKeys": "false"},
			"StringLike": {"aws:ResourceTag/" + fleetTag: "sfr-*"},
		},
		"FenceNetworkOfGroups": {"Null": {"aws:ResourceTag/" + groupTag: "false"}},
	} {
		if diff := gocmp.Diff(want, p[sid].Condition); diff != "" {
			t.Errorf("condition of %s, -want +got:\n%s", sid, diff)
		}
	}
}

// unrestricted lists the statements that change something without a condition. The page has a sentence for each.
func unrestricted() []string {
	return []string{"FenceNetworkByGroup", "ReplaceRootVolumes", "Warnings"}
}

// Each statement that changes something has a condition on a tag, or the page says why not. The page has a row for each
// statement, and no other.
func TestPolicyIsLimitedByTags(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "aws", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	p := policy(t)
	for sid, s := range p {
		if !strings.Contains(page, "`"+sid+"`") {
			t.Errorf("deploy/aws/README.md does not name the statement %s", sid)
		}
		reads := !slices.ContainsFunc(s.actions(), func(a string) bool {
			_, verb, _ := strings.Cut(a, ":")
			return !strings.HasPrefix(verb, "Describe") && !strings.HasPrefix(verb, "Get") && !strings.HasPrefix(verb, "List")
		})
		limited := len(s.Condition) > 0
		if !reads && !limited && !slices.Contains(unrestricted(), sid) {
			t.Errorf("statement %s changes something without a condition", sid)
		}
		if slices.Contains(unrestricted(), sid) && (limited || !strings.Contains(page, "\n* `"+sid+"`")) {
			t.Errorf("statement %s: want no condition, and a sentence of the page that says why", sid)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(page, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			if _, ok := p[strings.Trim(name, "`")]; !ok {
				t.Errorf("deploy/aws/README.md names the statement %s, which the policy does not have", name)
			}
		}
	}
}
