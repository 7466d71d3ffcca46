package signal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// releaseUse is a process of a pool that runs a release.
type releaseUse struct {
	Cluster string    `json:"cluster"`
	Pool    string    `json:"pool"`
	App     string    `json:"app"`
	Release string    `json:"release"`
	State   string    `json:"state"`            // of the process; "answered" if only the last tick is known
	AsOf    time.Time `json:"as_of,omitzero"`   // of that tick
	Yanked  string    `json:"yanked,omitempty"` // why the release was withdrawn
}

func (cli *commands) whereCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "where NAMESPACE/NAME[@VERSION]",
		Short: "List the pools that run a release, also beside another version",
		Long: `List the pools of the cluster that run a release of a signal, also beside another version
as candidate or shadow. Yanked releases are marked. Of a pool whose bootstrap does not
answer, the releases of its last tick are listed, with the time of that tick.`,
		Example: `  weir signal where shop/rps@v1.4.0
  weir signal where shop/rps --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OneArg("release")(cmd, args); err != nil {
				return err
			}
			_, err := releasePattern(args[0])
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := releasePattern(args[0])
			if err != nil {
				return err
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.where(ctx, b, wanted) })
		},
	}
	cli.NamesFlag(cmd, command.EachName(func(u releaseUse) string { return u.Pool }))
	return cmd
}

// releasePattern reads NAMESPACE/NAME@VERSION, or NAMESPACE/NAME for all versions: then the version is empty.
func releasePattern(text string) (release.Ref, error) {
	if !strings.Contains(text, "@") {
		namespace, name, ok := strings.Cut(text, "/")
		ref := release.Ref{Namespace: namespace, Name: name, Version: "x"}
		if !ok || ref.Validate() != nil {
			return release.Ref{}, usage.New(fmt.Errorf("release %q: want NAMESPACE/NAME or NAMESPACE/NAME@VERSION", text))
		}
		ref.Version = ""
		return ref, nil
	}
	ref, err := release.ParseRef(text)
	if err != nil {
		return ref, usage.New(err)
	}
	return ref, nil
}

func (cli *commands) where(ctx context.Context, b *bus.Bus, wanted release.Ref) error {
	pools, err := cli.Fleet(b).Pools(ctx)
	if err != nil {
		return err
	}
	found := slices.Concat(view.ForPools(pools, func(pool string) []releaseUse { return cli.usesIn(ctx, b, pool) })...)
	uses := slices.DeleteFunc(append([]releaseUse{}, found...), func(u releaseUse) bool {
		signal, version, _ := strings.Cut(u.Release, "@")
		return signal != wanted.Namespace+"/"+wanted.Name || wanted.Version != "" && version != wanted.Version
	})
	cli.markYanked(ctx, uses, wanted)
	if cli.Output == "json" {
		return cli.PrintJSON(uses)
	}
	var rows [][]string
	for _, u := range uses {
		state := u.State
		if !u.AsOf.IsZero() {
			state += " at " + explain.When(time.Now(), u.AsOf)
		}
		yanked := "-"
		if u.Yanked != "" {
			yanked = "YANKED: " + u.Yanked
		}
		rows = append(rows, []string{u.Pool, u.App, u.Release, state, yanked})
	}
	cli.PrintTable([]string{"pool", "app", "release", "state", "yanked"}, rows)
	return nil
}

// usesIn returns the releases that a pool runs; those of its last tick if its bootstrap does not answer.
func (cli *commands) usesIn(ctx context.Context, b *bus.Bus, pool string) (uses []releaseUse) {
	add := func(app, signal, version, state, yanked string, at time.Time) {
		if version != "" {
			uses = append(uses, releaseUse{cli.Cluster, pool, app, signal + "@" + version, state, at, yanked})
		}
	}
	var s api.BootstrapStatus
	err := view.Request(ctx, b.Conn(), names.BootstrapSubject(cli.Cluster, pool, "status"), "bootstrap of pool "+pool, nil, &s)
	if err == nil {
		for _, p := range s.Signals {
			add(p.App, p.Signal, p.Version, p.State, p.Yanked, time.Time{})
			if c := p.Candidate; c != nil {
				add(p.App, c.Signal, c.Version, "beside it: "+c.State, c.Yanked, time.Time{})
			}
		}
		return uses
	}
	r, errTick := history.Pool{JS: b.JetStream(), Cluster: cli.Cluster, Pool: pool}.Last(ctx)
	if errTick != nil {
		fmt.Fprintf(cli.Stderr, "weir: the releases of pool %s are unknown: %v; %v\n", pool, err, errTick)
		return nil
	}
	opinions := opinionsOf(r)
	for _, app := range slices.Sorted(maps.Keys(opinions)) {
		add(app, opinions[app].Signal, opinions[app].Version, "answered", "", r.At)
	}
	if r.Case != nil {
		add(sigproto.DefaultApp, r.Case.Input.Default.Signal, r.Case.Input.Default.Version, "answered", "", r.At)
	}
	return uses
}

// markYanked marks the uses whose release is yanked in the bucket.
func (cli *commands) markYanked(ctx context.Context, uses []releaseUse, wanted release.Ref) {
	if len(uses) == 0 {
		return
	}
	bucket, _, err := cli.Bucket(ctx)
	var published []release.Published
	if err == nil {
		published, err = release.List(ctx, bucket, wanted.Namespace, wanted.Name)
	}
	if err != nil {
		fmt.Fprintf(cli.Stderr, "weir: yanks in the bucket are unknown: %v\n", err)
	}
	for _, p := range published {
		for i := range uses {
			if p.Yanked && uses[i].Release == p.Ref.String() && uses[i].Yanked == "" {
				uses[i].Yanked = fmt.Sprintf("see \"weir release show %s\"", p.Ref)
			}
		}
	}
}
