package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

var moduleFolder = filepath.Join("..", "terraform")

// module is a Terraform module, evaluated with given variables.
type module struct {
	t      *testing.T
	blocks []*hclsyntax.Block
	ctx    *hcl.EvalContext
}

// readModule parses each file of the module. Two blocks with one name, and a variable without a description, are errors.
func readModule(t *testing.T) *module {
	t.Helper()
	m := &module{t: t}
	files, err := filepath.Glob(filepath.Join(moduleFolder, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	parser, seen := hclparse.NewParser(), map[string]bool{}
	for _, name := range files {
		file, diags := parser.ParseHCLFile(name)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			name := b.Type + " " + strings.Join(b.Labels, ".")
			if len(b.Labels) > 0 && seen[name] {
				t.Errorf("%s: a second %s", b.Range(), name)
			}
			seen[name] = true
			if (b.Type == "variable" || b.Type == "output") && b.Body.Attributes["description"] == nil {
				t.Errorf("%s: %s has no description", b.Range(), name)
			}
			m.blocks = append(m.blocks, b)
		}
	}
	return m
}

// evaluate sets the context of all expressions: variables, locals, and for each attribute of a resource that AWS sets a
// text like "ARN of aws_sqs_queue.notices".
func (m *module) evaluate(variables map[string]cty.Value) {
	m.t.Helper()
	m.ctx = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: m.functions()}
	all := maps.Clone(variables)
	resources, data := map[string]map[string]cty.Value{}, map[string]map[string]cty.Value{}
	for _, b := range m.blocks {
		switch b.Type {
		case "variable":
			if d := b.Body.Attributes["default"]; d != nil {
				all[b.Labels[0]] = m.value(d.Expr)
			} else if _, ok := variables[b.Labels[0]]; !ok {
				m.t.Errorf("%s: the test has no value", b.Range())
			}
		case "resource":
			put(resources, b, map[string]string{"id": "", "arn": "ARN of ", "url": "URL of ", "name": "name of "})
		case "data":
			put(data, b, map[string]string{"name": "name of ", "account_id": "account of "})
		}
	}
	for name := range variables {
		all[name] = variables[name]
	}
	m.ctx.Variables["var"] = cty.ObjectVal(all)
	m.ctx.Variables["path"] = cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(moduleFolder)})
	for kind, values := range resources {
		m.ctx.Variables[kind] = cty.ObjectVal(values)
	}
	kinds := map[string]cty.Value{}
	for kind, values := range data {
		kinds[kind] = cty.ObjectVal(values)
	}
	m.ctx.Variables["data"] = cty.ObjectVal(kinds)
	m.evaluateLocals()
}

// put adds a block with attributes that AWS sets.
func put(to map[string]map[string]cty.Value, b *hclsyntax.Block, attributes map[string]string) {
	kind, name := b.Labels[0], b.Labels[1]
	if to[kind] == nil {
		to[kind] = map[string]cty.Value{}
	}
	values := map[string]cty.Value{}
	for a, prefix := range attributes {
		values[a] = cty.StringVal(prefix + kind + "." + name)
	}
	to[kind][name] = cty.ObjectVal(values)
}

// evaluateLocals evaluates the locals, each after those that it uses.
func (m *module) evaluateLocals() {
	m.t.Helper()
	waiting := map[string]hclsyntax.Expression{}
	for _, b := range m.blocks {
		if b.Type == "locals" {
			for name, a := range b.Body.Attributes {
				waiting[name] = a.Expr
			}
		}
	}
	known := map[string]cty.Value{}
	for len(waiting) > 0 {
		before := len(waiting)
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			needs := slices.ContainsFunc(waiting[name].Variables(), func(v hcl.Traversal) bool {
				step, ok := v[1].(hcl.TraverseAttr)
				return v.RootName() == "local" && ok && waiting[step.Name] != nil
			})
			if !needs {
				m.ctx.Variables["local"] = cty.ObjectVal(known)
				known[name] = m.value(waiting[name])
				delete(waiting, name)
			}
		}
		if len(waiting) == before {
			m.t.Fatalf("locals %v use each other in a circle, or a missing one", slices.Sorted(maps.Keys(waiting)))
		}
	}
	m.ctx.Variables["local"] = cty.ObjectVal(known)
}

func (m *module) functions() map[string]function.Function {
	text := []function.Parameter{{Name: "text", Type: cty.String}}
	one := func(f func(string) (string, error)) function.Function {
		return function.New(&function.Spec{Params: text, Type: function.StaticReturnType(cty.String), Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		}})
	}
	return map[string]function.Function{
		"jsonencode": stdlib.JSONEncodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "replace": stdlib.ReplaceFunc, "contains": stdlib.ContainsFunc,
		"concat": stdlib.ConcatFunc, "join": stdlib.JoinFunc, "compact": stdlib.CompactFunc,
		"base64encode": one(func(s string) (string, error) { return "base64 of " + s, nil }),
		"file": one(func(path string) (string, error) {
			data, err := os.ReadFile(path)
			return string(data), err
		}),
	}
}

func (m *module) value(e hclsyntax.Expression) cty.Value {
	m.t.Helper()
	v, diags := e.Value(m.ctx)
	if diags.HasErrors() {
		m.t.Errorf("%v", diags)
	}
	return v
}

// evaluateAll evaluates each attribute of each resource and output.
func (m *module) evaluateAll(body *hclsyntax.Body) {
	m.t.Helper()
	for _, a := range body.Attributes {
		m.value(a.Expr)
	}
	for _, b := range body.Blocks {
		if b.Type != "lifecycle" { // its names are not expressions
			m.evaluateAll(b.Body)
		}
	}
}

// text returns an attribute of a resource.
func (m *module) text(kind, name, attribute string) string {
	m.t.Helper()
	for _, b := range m.blocks {
		if b.Type == "resource" && b.Labels[0] == kind && b.Labels[1] == name && b.Body.Attributes[attribute] != nil {
			return m.value(b.Body.Attributes[attribute].Expr).AsString()
		}
	}
	m.t.Fatalf("no attribute %s of %s.%s", attribute, kind, name)
	return ""
}

func strs(list ...string) cty.Value {
	var values []cty.Value
	for _, s := range list {
		values = append(values, cty.StringVal(s))
	}
	return cty.ListVal(values)
}

func exampleVariables() map[string]cty.Value {
	return map[string]cty.Value{
		"cluster": cty.StringVal("everywhere-prod"), "pool": cty.StringVal("default"), "image_id": cty.StringVal("ami-1"), "instance_type": cty.StringVal("m7i.large"),
		"subnet_ids": strs("subnet-a"), "security_group_ids": strs("sg-1"), "user_data": cty.StringVal("#!/bin/sh"), "max_size": cty.NumberIntVal(80),
		"signals_bucket": cty.StringVal("signals"), "packages_bucket": cty.StringVal("packages"), "signals_prefix": cty.StringVal("releases"),
		"isolation_security_group": cty.StringVal("sg-isolation"),
	}
}

// Each expression of the module refers to what exists, and has a value.
func TestTerraformModuleEvaluates(t *testing.T) {
	m := readModule(t)
	m.evaluate(exampleVariables())
	for _, b := range m.blocks {
		if b.Type == "resource" || b.Type == "output" {
			m.evaluateAll(b.Body)
		}
	}
}

// guide returns a block of the guide, by the name of its file.
func guide(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide-aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```json "+file+"\n")
	text, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatalf("the guide has no block %s", file)
	}
	return text
}

// sameJSON compares two texts as JSON, after replacing names of the page.
func sameJSON(t *testing.T, what, page, module string, names ...string) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(strings.NewReplacer(names...).Replace(page)), &want); err != nil {
		t.Fatalf("%s of the page: %v", what, err)
	}
	if err := json.Unmarshal([]byte(module), &got); err != nil {
		t.Fatalf("%s of the module: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, -page +module:\n%s", what, diff)
	}
}

// The policies of the module are those of the guide and of deploy/aws, and no name in capitals is left over.
func TestTerraformPolicies(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "aws", "iam-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct{ Statement []struct{ Sid string } }
	if err := json.Unmarshal(data, &policy); err != nil {
		t.Fatal(err)
	}
	var all []cty.Value
	for _, s := range policy.Statement {
		all = append(all, cty.StringVal(s.Sid))
	}
	m := readModule(t)
	variables := exampleVariables()
	variables["statements"] = cty.ListVal(all)
	m.evaluate(variables)
	names := []string{
		"SIGNALS_BUCKET", "signals", "SIGNALS_PREFIX", "releases", "PACKAGES", "packages", "QUEUE", "name of aws_sqs_queue.notices", "ISOLATION_GROUP", "sg-isolation",
		"REGION", "name of aws_region.current", "ACCOUNT", "account of aws_caller_identity.current",
	}
	sameJSON(t, "policy of the daemons", string(data), m.text("aws_iam_role_policy", "daemons", "policy"), names...)
	sameJSON(t, "policy of the machines", guide(t, "node-policy.json"), m.text("aws_iam_role_policy", "node", "policy"), names...)
	for _, role := range []string{"daemons", "node"} {
		sameJSON(t, "trust of "+role, guide(t, "ec2-trust.json"), m.text("aws_iam_role", role, "assume_role_policy"))
	}
	sameJSON(t, "pattern", guide(t, "rule.json"), m.text("aws_cloudwatch_event_rule", "notices", "event_pattern"))
	var queue struct{ Policy string }
	if err := json.Unmarshal([]byte(guide(t, "queue.json")), &queue); err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "policy of the queue", queue.Policy, m.text("aws_sqs_queue_policy", "notices", "policy"),
		"arn:aws:sqs:REGION:ACCOUNT:weir-notices", "ARN of aws_sqs_queue.notices", "arn:aws:events:REGION:ACCOUNT:rule/weir-notices", "ARN of aws_cloudwatch_event_rule.notices")
}

// The default statements exist, need no bucket of fleets, and leave no name in capitals. Without an isolation group the
// policy has no fence by NETWORK.
func TestTerraformDefaultPolicy(t *testing.T) {
	m := readModule(t)
	variables := exampleVariables()
	delete(variables, "signals_prefix")
	delete(variables, "isolation_security_group")
	m.evaluate(variables)
	text := m.text("aws_iam_role_policy", "daemons", "policy")
	if left := regexp.MustCompile(`[:/"][A-Z_]{4,}[:/"]`).FindString(text); left != "" {
		t.Errorf("%s is left in %s", left, text)
	}
	if !strings.Contains(text, `"arn:aws:s3:::signals/*"`) {
		t.Errorf("no right to read releases without a prefix: %s", text)
	}
	for _, sid := range m.ctx.Variables["var"].GetAttr("statements").AsValueSlice() {
		if !strings.Contains(text, fmt.Sprintf(`"Sid":%q`, sid.AsString())) {
			t.Errorf("deploy/aws/iam-policy.json has no statement %s", sid.AsString())
		}
	}
	if strings.Contains(text, "FenceNetwork") {
		t.Error("a fence by NETWORK without its group")
	}
}

// The launch template of the module has the metadata options and tags of the guide.
func TestTerraformLaunchTemplate(t *testing.T) {
	var page struct {
		MetadataOptions   map[string]string
		TagSpecifications []struct {
			ResourceType string
			Tags         []struct{ Key, Value string }
		}
	}
	text := guide(t, "template.json")
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"http_endpoint": "enabled", "http_tokens": page.MetadataOptions["HttpTokens"], "instance_metadata_tags": page.MetadataOptions["InstanceMetadataTags"]}
	for _, s := range page.TagSpecifications {
		for _, tag := range s.Tags {
			want[s.ResourceType+" "+tag.Key] = tag.Value
		}
	}
	m := readModule(t)
	m.evaluate(exampleVariables())
	got := map[string]string{}
	for _, b := range m.blocks {
		if b.Type != "resource" || b.Labels[0] != "aws_launch_template" {
			continue
		}
		for _, inner := range b.Body.Blocks {
			switch inner.Type {
			case "metadata_options":
				for name, a := range inner.Body.Attributes {
					got[name] = m.value(a.Expr).AsString()
				}
			case "tag_specifications":
				kind := m.value(inner.Body.Attributes["resource_type"].Expr).AsString()
				for key, v := range m.value(inner.Body.Attributes["tags"].Expr).AsValueMap() {
					got[kind+" "+key] = v.AsString()
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("launch template, -page +module:\n%s", diff)
	}
}
