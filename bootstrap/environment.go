package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// The variables of the design document. Lists are separated by white space, and
// entry i of each is of signal i, the default signal first. Signals that weir
// ships have no version, and are in no list.
const (
	VarCluster    = "CMAN_CLUSTER"
	VarPool       = "CMAN_POOL" // "default" if it is not set
	VarArgs       = "CMAN_ARGS"
	VarBucket     = "CMAN_SIGNALS_BUCKET"
	VarVersions   = "CMAN_VERSIONS_TO_FETCH" // the distinct versions, a set
	VarVersion    = "CMAN_SIGNAL_VERSIONS"
	VarNamespace  = "CMAN_SIGNAL_NAMESPACES"
	VarName       = "CMAN_SIGNAL_NAMES"
	VarApp        = "CMAN_SIGNAL_APPS"
	VarNumVersion = "CMAN_NUM_VERSIONS" // of distinct ones
	VarNumSignal  = "CMAN_NUM_SIGNALS"
)

const defaultPool = "default"

// Environment returns the plan as all eleven variables, "KEY=VALUE" each. Bucket
// and args are those of VarBucket and VarArgs.
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
		list(VarVersions, distinct), list(VarVersion, versions), list(VarNamespace, namespaces),
		list(VarName, names), list(VarApp, apps),
		VarNumVersion + "=" + strconv.Itoa(len(distinct)), VarNumSignal + "=" + strconv.Itoa(len(apps)),
	}
}

// PlanFromEnvironment reads a plan from the variables, with getenv in the manner
// of os.Getenv. It has the signals of the lists, and so no signal that weir
// ships; ok is false, and the plan has a cluster and a pool at most, if none of
// the lists is set. Counts and versions to fetch without them are an error.
// VarArgs and VarBucket are not of the plan.
func PlanFromEnvironment(getenv func(string) string) (plan Plan, ok bool, err error) {
	plan = Plan{Cluster: getenv(VarCluster), Pool: getenv(VarPool)}
	if plan.Pool == "" {
		plan.Pool = defaultPool
	}
	words := func(name string) []string { return strings.Fields(getenv(name)) }
	versions, namespaces, names, apps := words(VarVersion), words(VarNamespace), words(VarName), words(VarApp)
	if n := len(versions); len(namespaces) != n || len(names) != n || len(apps) != n {
		return Plan{}, false, fmt.Errorf("lists of unequal length: %s has %d, %s %d, %s %d, %s %d",
			VarVersion, len(versions), VarNamespace, len(namespaces), VarName, len(names), VarApp, len(apps))
	}
	for i := range versions {
		plan.Signals = append(plan.Signals, NewSignalPlan(apps[i], namespaces[i], names[i], versions[i]))
	}
	if err := errors.Join(checkDefault(apps), checkSet(words(VarVersions), versions),
		checkCount(VarNumVersion, getenv(VarNumVersion), len(set(versions))),
		checkCount(VarNumSignal, getenv(VarNumSignal), len(apps))); err != nil {
		return Plan{}, false, err
	}
	return plan, len(apps) > 0, nil
}

// set returns the distinct words, in order.
func set(words []string) []string {
	distinct := slices.Clone(words)
	slices.Sort(distinct)
	return slices.Compact(distinct)
}

func checkDefault(apps []string) error {
	if i := slices.Index(apps, sigproto.DefaultApp); i > 0 {
		return fmt.Errorf("%s: the default signal's app %s is entry %d, want it first", VarApp, sigproto.DefaultApp, i+1)
	}
	return nil
}

// checkSet compares the versions to fetch, if they are set, with those of the
// signals.
func checkSet(fetch, versions []string) error {
	if len(fetch) != 0 && !slices.Equal(set(fetch), set(versions)) {
		return fmt.Errorf("%s is %q, but the signals' versions are %q", VarVersions, set(fetch), set(versions))
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
