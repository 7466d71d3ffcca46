package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Environment variables of Clusterman. Lists are separated by white space. Entry i of each list belongs to signal i;
// the default signal is first. Signals that weir ships have no version and are not listed.
const (
	VarCluster    = "CMAN_CLUSTER"
	VarPool       = "CMAN_POOL" // unset: "default"
	VarArgs       = "CMAN_ARGS"
	VarBucket     = "CMAN_SIGNALS_BUCKET"
	varVersions   = "CMAN_VERSIONS_TO_FETCH" // distinct versions
	varVersion    = "CMAN_SIGNAL_VERSIONS"
	varNamespace  = "CMAN_SIGNAL_NAMESPACES"
	varName       = "CMAN_SIGNAL_NAMES"
	varApp        = "CMAN_SIGNAL_APPS"
	varNumVersion = "CMAN_NUM_VERSIONS" // number of distinct versions
	varNumSignal  = "CMAN_NUM_SIGNALS"
)

const defaultPool = "default"

// Environment returns the plan as all eleven variables, in the form "KEY=VALUE". bucket and args are the values of
// VarBucket and VarArgs.
func (p Plan) Environment(bucket, args string) []string {
	var versions, namespaces, names, apps []string
	for _, s := range p.Signals {
		if s.Shipped() {
			continue
		}
		versions, namespaces = append(versions, s.Version), append(namespaces, s.Namespace)
		names, apps = append(names, s.Name), append(apps, s.App)
	}
	distinct := set(versions)
	list := func(name string, words []string) string { return name + "=" + strings.Join(words, " ") }
	return []string{
		VarCluster + "=" + p.Cluster, VarPool + "=" + p.Pool, VarArgs + "=" + args, VarBucket + "=" + bucket,
		list(varVersions, distinct), list(varVersion, versions), list(varNamespace, namespaces),
		list(varName, names), list(varApp, apps),
		varNumVersion + "=" + strconv.Itoa(len(distinct)), varNumSignal + "=" + strconv.Itoa(len(apps)),
	}
}

// PlanFromEnvironment builds a plan from the variables. getenv behaves like os.Getenv. The plan has the signals of the
// lists, so it has no shipped signals. If no list is set, ok is false and the plan has at most a cluster and a pool.
// Counts or versions to fetch without lists are an error. VarArgs and VarBucket are ignored.
func PlanFromEnvironment(getenv func(string) string) (plan Plan, ok bool, err error) {
	plan = Plan{Cluster: getenv(VarCluster), Pool: getenv(VarPool)}
	if plan.Pool == "" {
		plan.Pool = defaultPool
	}
	words := func(name string) []string { return strings.Fields(getenv(name)) }
	versions, namespaces, names, apps := words(varVersion), words(varNamespace), words(varName), words(varApp)
	if n := len(versions); len(namespaces) != n || len(names) != n || len(apps) != n {
		return Plan{}, false, fmt.Errorf("lists of unequal length: %s has %d, %s %d, %s %d, %s %d",
			varVersion, len(versions), varNamespace, len(namespaces), varName, len(names), varApp, len(apps))
	}
	for i := range versions {
		plan.Signals = append(plan.Signals, NewSignalPlan(apps[i], namespaces[i], names[i], versions[i]))
	}
	if err := errors.Join(checkDefault(apps), checkSet(words(varVersions), versions),
		checkCount(varNumVersion, getenv(varNumVersion), len(set(versions))),
		checkCount(varNumSignal, getenv(varNumSignal), len(apps))); err != nil {
		return Plan{}, false, err
	}
	return plan, len(apps) > 0, nil
}

// set returns the distinct words, sorted.
func set(words []string) []string {
	distinct := slices.Clone(words)
	slices.Sort(distinct)
	return slices.Compact(distinct)
}

func checkDefault(apps []string) error {
	if i := slices.Index(apps, sigproto.DefaultApp); i > 0 {
		return fmt.Errorf("%s: the default signal's app %s is entry %d, want it first", varApp, sigproto.DefaultApp, i+1)
	}
	return nil
}

// checkSet compares the versions to fetch, if set, with those of the signals.
func checkSet(fetch, versions []string) error {
	if len(fetch) != 0 && !slices.Equal(set(fetch), set(versions)) {
		return fmt.Errorf("%s is %q, but the signals' versions are %q", varVersions, set(fetch), set(versions))
	}
	return nil
}

func checkCount(name, text string, want int) error {
	if text == "" {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n != want {
		return fmt.Errorf("%s is %.40q, but there are %d", name, text, want)
	}
	return nil
}
