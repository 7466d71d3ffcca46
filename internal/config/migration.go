package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// Migration is Clusterman's node_migration. What has a meaning here becomes the rotation of the pool.
type Migration struct {
	Trigger  MigrationTrigger  `yaml:"trigger"`
	Strategy MigrationStrategy `yaml:"strategy"`
}

// MigrationTrigger is what begins a migration.
type MigrationTrigger struct {
	MaxUptime Age `yaml:"max_uptime"` // rotation.max_age
}

// MigrationStrategy is how a migration goes on.
type MigrationStrategy struct {
	Rate             Portion `yaml:"rate"` // a number is rotation.rate
	Precedence       string  `yaml:"precedence"`
	BootstrapWait    Age     `yaml:"bootstrap_wait"`    // rotation.health_gate.wait
	BootstrapTimeout Age     `yaml:"bootstrap_timeout"` // rotation.health_gate.within
}

// defaultBootstrapWait is how long Clusterman waits after it has drained as many machines as its rate.
const defaultBootstrapWait = 3 * time.Minute

// Portion is a number of machines, or a share of them such as "10%".
type Portion string

// UnmarshalYAML reads a number or a text.
func (p *Portion) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	text := fmt.Sprint(value)
	if x, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64); err != nil || !(x >= 0) {
		return &wantError{"a number of machines, or a share such as 10%"}
	}
	*p = Portion(text)
	return nil
}

// machines returns the number of machines; 0: it is a share.
func (p Portion) machines() int {
	n, _ := strconv.Atoi(string(p)) // 0 for a share
	return min(n, maxPortion)
}

const maxPortion = 100_000

// warnings names the values that have no meaning here.
func (m *Migration) warnings(d document) (ps Problems) {
	if m == nil {
		return nil
	}
	at := func(key, what string) { ps = append(ps, d.problem("node_migration.strategy."+key, what)) }
	if m.Strategy.Rate != "" && m.Strategy.Rate.machines() == 0 {
		at("rate", "is ignored: a share is no number of machines; the disruption budget bounds the machines at a time, and rotation.rate those within a time")
	}
	if of := m.Strategy.Precedence; of != "" && of != "lowest_task_count" {
		at("precedence", "is ignored: machines with fewer tasks leave first, which is lowest_task_count")
	}
	return ps
}

// Ignored returns why keys of Clusterman are ignored.
func (Migration) Ignored() map[string]string {
	return map[string]string{
		"disable_autoscaling": "is ignored: the pool keeps following its need", "ignore_pod_health": "is ignored: instances that are not ready fail the health gate",
		"health_check_interval": "is ignored: each tick checks the new machines", "orphan_capacity_tollerance": "is ignored: a machine leaves only when the others meet the target",
		"max_uptime_worker_skips": noService, "expected_duration": "is ignored: a rotation has no end by time",
	}
}

// Ignored returns why keys of Clusterman are ignored.
func (MigrationTrigger) Ignored() map[string]string {
	return map[string]string{"event": `is ignored: order the rotation of an event with "weir pool rotate --node-migration FILE"`}
}

// Ignored returns why keys of Clusterman are ignored.
func (MigrationStrategy) Ignored() map[string]string {
	return map[string]string{
		"prescaling": "is ignored: a replacement always starts first", "allowed_failed_drains": "is ignored: a drain that fails is tried again",
	}
}

// rotation returns the rotation with the values of a migration, where its own are missing.
func (m *Migration) rotation(r Rotation) Rotation {
	if m == nil {
		return r
	}
	r.MaxAge = firstOf(r.MaxAge, m.Trigger.MaxUptime)
	r.Gate.Within = firstOf(r.Gate.Within, time.Duration(m.Strategy.BootstrapTimeout))
	if wait := time.Duration(m.Strategy.BootstrapWait); r.Gate.Wait == nil && wait > 0 {
		r.Gate.Wait = &wait
	}
	if n := m.Strategy.Rate.machines(); n > 0 && r.Rate == (Rate{}) {
		r.Rate = Rate{Machines: n, Within: max(firstOf(time.Duration(m.Strategy.BootstrapWait), defaultBootstrapWait), time.Minute)}
	}
	return r
}

// nodeMigration is an event of Clusterman's node migration: an object in Kubernetes. Its condition is what the machines are to be like, so
// those that do not meet it are replaced.
type nodeMigration struct {
	Spec nodeMigrationSpec `yaml:"spec"`
}

// Ignored returns why keys of an object are ignored.
func (nodeMigration) Ignored() map[string]string {
	const why = "is of Kubernetes"
	return map[string]string{"apiVersion": why, "kind": why, "metadata": why, "status": why}
}

// nodeMigrationSpec is the content of a NodeMigration.
type nodeMigrationSpec struct {
	Cluster   string             `yaml:"cluster"`
	Pool      string             `yaml:"pool"`
	Labels    []string           `yaml:"label_selectors"`
	Condition migrationCondition `yaml:"condition"`
}

// migrationCondition is what the machines are to be like.
type migrationCondition struct {
	Trait    string `yaml:"trait"`
	Operator string `yaml:"operator"`
	Target   string `yaml:"target"`
}

// ReadNodeMigration reads the file of an event, such as kubectl prints it, and returns the condition of the machines to replace.
func ReadNodeMigration(path, cluster, pool string) (where string, err error) {
	file, err := readFile(path)
	if err != nil {
		return "", err
	}
	var m nodeMigration
	doc, err := decodeRest(path, file.Text, &m)
	if err != nil {
		return "", err
	}
	where, ps := m.where(doc)
	if of := m.Spec; of.Cluster != "" && of.Cluster != cluster || of.Pool != "" && of.Pool != pool {
		ps = append(ps, doc.problem("spec.pool", fmt.Sprintf("is of %s/%s, and the command is of %s/%s: name that pool, or correct the file", of.Cluster, of.Pool, cluster, pool)))
	}
	return where, doc.complete(ps.OrNil())
}

func (m nodeMigration) where(d document) (where string, ps Problems) {
	c := m.Spec.Condition
	at := func(key, what string) { ps = append(ps, d.problem("spec."+key, what)) }
	if len(m.Spec.Labels) > 0 {
		at("label_selectors", `has labels: a rotation selects by group, image, market, template, type and zone; write --where`)
	}
	each := func(term string) string {
		var terms []string
		for of := range strings.SplitSeq(c.Target, ",") {
			terms = append(terms, term+strings.ToLower(strings.TrimSpace(of)))
		}
		return strings.Join(terms, ",")
	}
	switch c.Trait + " " + c.Operator {
	case "uptime lt", "uptime le":
		text := c.Target
		if n, err := strconv.Atoi(text); err == nil {
			text = seconds.Short(time.Duration(n) * time.Second)
		}
		where = "age>" + text
	case "instance_type eq", "instance_type in":
		where = each("type!=")
	case "instance_type ne":
		where = each("type=")
	case "instance_type notin":
		where = "type in " + strings.ReplaceAll(each(""), ",", " ")
	default:
		if slices.Contains([]string{"kernel", "lsbrelease"}, c.Trait) {
			at("condition.trait", "is "+c.Trait+", which no provider reports: name the images that have it, such as --where image!=ami-2")
		} else {
			at("condition", fmt.Sprintf("is %q: want uptime with lt or le, or instance_type with eq, ne, in or notin", strings.TrimSpace(c.Trait+" "+c.Operator+" "+c.Target)))
		}
		return "", ps
	}
	if _, err := rotate.Parse(where); err != nil {
		at("condition.target", fmt.Sprintf("is %.80q: %v", c.Target, err))
	}
	return where, ps
}
