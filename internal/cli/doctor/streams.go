package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// target is a stream or a bucket that a pool needs.
type target struct {
	name   string // of the stream
	what   string // for people
	want   jetstream.StreamConfig
	create bool // doctor may create it: it has the bounds of the pool
}

// targets returns the streams and buckets of the cluster, of the pool, and of the other pools. Those may have other bounds, so
// doctor does not create their streams.
func (x *busExam) targets(others []string) (all []target) {
	bounds := x.Bounds
	bounds.Name = x.Pool
	own := streams.Cluster{Name: x.Cluster, Replicas: x.replicas, Pools: []streams.Pool{bounds}}
	for _, c := range own.Specs() {
		all = append(all, targetOf(c, true))
	}
	foreign := streams.Cluster{Name: x.Cluster, Replicas: x.replicas}
	whole := len(foreign.Specs())
	for _, pool := range others {
		foreign.Pools = append(foreign.Pools, streams.Pool{Name: pool})
	}
	for _, c := range foreign.Specs()[whole:] {
		all = append(all, targetOf(c, false))
	}
	return all
}

func targetOf(c jetstream.StreamConfig, create bool) target {
	if bucket, ok := strings.CutPrefix(c.Name, kvbucket.Stream("")); ok {
		return target{c.Name, "bucket " + bucket, c, create}
	}
	return target{c.Name, "stream " + c.Name, c, create}
}

// pools returns the pools of the cluster that the bus has. listed is false if the role may not list them.
func (x *busExam) pools(ctx context.Context, js jetstream.JetStream) (all []string, listed bool) {
	if !x.role.may("$JS.API.STREAM.NAMES") {
		return nil, false
	}
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	all, err := state.Pools(ctx, js, x.Cluster)
	if err != nil {
		x.found("streams", Unknown, streamRemedy(err), "%v", err)
	}
	return all, err == nil
}

// isUnknown reports whether the pool is one that neither the bus nor the files of this host have, while they have others: its name is a
// mistake. A host without files may create the streams of a new pool.
func (x *busExam) isUnknown(ctx context.Context, js jetstream.JetStream, onBus []string) bool {
	all := slices.Concat(x.Files, onBus)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 || slices.Contains(all, x.Pool) || x.Fix && len(x.Files) == 0 || x.hasStream(ctx, js) {
		return false
	}
	x.unknown = true
	next := fmt.Sprintf("type %q", "weir doctor "+cmp.Or(spelling.Nearest(x.Pool, all), all[0]))
	if x.NewFile != "" {
		next += ", or write the file of a new pool: " + x.NewFile
	}
	x.found(PoolCheck, Failed, next, "neither the files nor the bus of cluster %s have a pool %q; its pools are %s%s",
		x.Cluster, x.Pool, explain.List(all), spelling.DidYouMean(x.Pool, all))
	return true
}

// hasStream reports whether the bus has a stream or a bucket of the pool, or may have one.
func (x *busExam) hasStream(ctx context.Context, js jetstream.JetStream) bool {
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	shared := len(streams.Cluster{Name: x.Cluster, Replicas: x.replicas}.Specs())
	return slices.ContainsFunc(x.targets(nil)[shared:], func(t target) bool {
		_, err := js.Stream(ctx, t.name)
		return !errors.Is(err, jetstream.ErrStreamNotFound)
	})
}

// otherPools returns the other pools, as far as the role may read them.
func (x *busExam) otherPools(all []string) []string {
	others := slices.DeleteFunc(all, func(pool string) bool { return pool == x.Pool })
	if x.role.user != nil { // a role of several pools has those of its user, which may be fewer
		u := *x.role.user
		u.Pools = slices.Concat(u.Pools, others)
		x.role.user = &u
	}
	return slices.DeleteFunc(others, func(pool string) bool {
		return !x.role.may("$JS.API.STREAM.INFO." + names.LedgerStream(x.Cluster, pool))
	})
}

// streams checks the replicas, the leader and the lag of each stream, and then the storage.
func (x *busExam) streams(ctx context.Context, b *bus.Bus) {
	x.progress("streams")
	all, listed := x.pools(ctx, b.JetStream())
	if listed && x.isUnknown(ctx, b.JetStream(), all) {
		return
	}
	for _, t := range x.targets(x.otherPools(all)) {
		f := x.stream(ctx, b.JetStream(), t)
		f.Check = "streams"
		x.report(f)
	}
	x.schemas(ctx, b.JetStream())
	x.storage(ctx, b.JetStream())
}

// schemas reports a bucket of the pool that another version of weir has written. Other errors have a finding of their own.
func (x *busExam) schemas(ctx context.Context, js jetstream.JetStream) {
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	if _, err := state.OpenOrders(ctx, js, x.Cluster, x.Pool); errors.Is(err, state.ErrSchema) {
		x.report(Finding{Check: "schema", Result: Failed, Detail: err.Error(),
			Fix: "docs/upgrade.md has the order of an upgrade, docs/backup.md the steps of a restore"})
	}
}

// stream returns the finding of one stream, after its fix if that is permitted.
func (x *busExam) stream(ctx context.Context, js jetstream.JetStream, t target) Finding {
	if !x.role.may("$JS.API.STREAM.INFO." + t.name) {
		return x.unreadable(t)
	}
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	s, err := js.Stream(ctx, t.name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return x.missing(ctx, js, t)
	case errors.Is(err, nats.ErrPermissionViolation):
		return x.unreadable(t)
	case err != nil:
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: %v", t.what, err), Fix: streamRemedy(err)}
	}
	config := s.CachedInfo().Config
	if wrong := unprotected(t.want, config); wrong != nil {
		return x.protect(ctx, js, t, config, wrong)
	}
	if config.Replicas < x.replicas {
		return x.fewReplicas(ctx, js, t, config)
	}
	return ofStream(t, s.CachedInfo())
}

func (x *busExam) unreadable(t target) Finding {
	return Finding{Result: Unknown, Detail: fmt.Sprintf("%s: %v may not read it", t.what, x.role), Fix: "run doctor with credentials of role viewer, operator or admin"}
}

// missing reports a missing stream, or creates it.
func (x *busExam) missing(ctx context.Context, js jetstream.JetStream, t target) Finding {
	if err := streams.CheckLayout(ctx, js, t.name); errors.Is(err, streams.ErrLayout) { // other roles may not list the streams
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: is missing, and %v", t.what, err), Fix: `then run "weir nats streams" as role admin`}
	}
	if !x.Fix || !t.create {
		return Finding{Result: Failed, Detail: t.what + ": is missing", Fix: `run "weir nats streams" as role admin`}
	}
	if !x.role.may("$JS.API.STREAM.CREATE." + t.name) {
		return x.notPermitted(t, "is missing", "create it")
	}
	if _, err := streams.Create(ctx, js, []jetstream.StreamConfig{t.want}); err != nil {
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: is missing; create it: %v", t.what, err), Fix: streamRemedy(err)}
	}
	return Finding{Result: Fixed, Detail: fmt.Sprintf("%s: was missing; created with %d replicas", t.what, x.replicas)}
}

// unprotected returns the settings of a stream with which a client could remove or replace stored values, or could not
// read them as weir does.
func unprotected(want, got jetstream.StreamConfig) (wrong []string) {
	for _, one := range []struct {
		differs bool
		text    string
	}{
		{got.AllowRollup && !want.AllowRollup, "allow_rollup_hdrs is true"},
		{want.DenyPurge && !got.DenyPurge, "deny_purge is false"},
		{want.DenyDelete && !got.DenyDelete, "deny_delete is false"},
		{max(got.MaxMsgsPerSubject, 0) != max(want.MaxMsgsPerSubject, 0),
			fmt.Sprintf("max_msgs_per_subject is %d, want %d", got.MaxMsgsPerSubject, max(want.MaxMsgsPerSubject, 0))},
		{got.AllowDirect != want.AllowDirect, fmt.Sprintf("allow_direct is %v", got.AllowDirect)},
		{want.AllowMsgTTL && !got.AllowMsgTTL, "allow_msg_ttl is false"},
		{republishes(got) != republishes(want), "republish is " + republishes(got) + ", want " + republishes(want)},
	} {
		if one.differs {
			wrong = append(wrong, one.text)
		}
	}
	return wrong
}

// republishes returns where a stream republishes its messages.
func republishes(c jetstream.StreamConfig) string {
	if c.RePublish == nil {
		return "off"
	}
	return c.RePublish.Destination
}

// protect reports wrong settings of a stream, or corrects them.
func (x *busExam) protect(ctx context.Context, js jetstream.JetStream, t target, c jetstream.StreamConfig, wrong []string) Finding {
	text := strings.Join(wrong, ", ")
	if !x.Fix {
		return Finding{Result: Failed, Detail: t.what + ": " + text + ": a client could empty it, or reads of weir fail",
			Fix: `run "weir doctor --fix" as role admin, and find the program that created or changed it`}
	}
	if !x.role.may("$JS.API.STREAM.UPDATE." + t.name) {
		return x.notPermitted(t, text, "correct it")
	}
	c.AllowRollup, c.DenyPurge, c.DenyDelete = t.want.AllowRollup, t.want.DenyPurge, t.want.DenyDelete
	c.AllowMsgTTL, c.RePublish = c.AllowMsgTTL || t.want.AllowMsgTTL, t.want.RePublish
	c.MaxMsgsPerSubject, c.AllowDirect, c.Replicas = t.want.MaxMsgsPerSubject, t.want.AllowDirect, max(c.Replicas, x.replicas)
	if _, err := js.UpdateStream(ctx, c); err != nil {
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: %s; correct it: %v", t.what, text, err), Fix: streamRemedy(err)}
	}
	return Finding{Result: Fixed, Detail: fmt.Sprintf("%s: corrected: %s; it has %d replicas", t.what, text, c.Replicas)}
}

// fewReplicas reports a stream with too few replicas, or raises their number.
func (x *busExam) fewReplicas(ctx context.Context, js jetstream.JetStream, t target, c jetstream.StreamConfig) Finding {
	few := fmt.Sprintf("has %d of %d replicas", c.Replicas, x.replicas)
	if !x.Fix {
		return Finding{Result: Failed, Detail: t.what + ": " + few, Fix: `run "weir doctor --fix" as role admin, or lower nats.replicas of weir.yaml`}
	}
	if !x.role.may("$JS.API.STREAM.UPDATE." + t.name) {
		return x.notPermitted(t, few, "raise the number")
	}
	before := c.Replicas
	c.Replicas = x.replicas
	if _, err := js.UpdateStream(ctx, c); err != nil {
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: %s; raise the number: %v", t.what, few, err), Fix: streamRemedy(err)}
	}
	return Finding{Result: Fixed, Detail: fmt.Sprintf("%s: raised from %d to %d replicas; the new ones copy it now", t.what, before, x.replicas)}
}

func (x *busExam) notPermitted(t target, problem, do string) Finding {
	return Finding{Result: Failed, Detail: fmt.Sprintf("%s: %s, and %v may not %s", t.what, problem, x.role, do),
		Fix: `run "weir doctor --fix" with credentials of role admin (nats.nkey_file)`}
}

// streamRemedy returns what to do about an error of a request.
func streamRemedy(err error) string {
	const noPeers, notClustered, unavailable = 10005, 10074, 503
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case isAPI && (api.ErrorCode == noPeers || api.ErrorCode == notClustered), errors.Is(err, kvbucket.ErrNoPeers):
		return "start the other servers, or lower nats.replicas of weir.yaml"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return `enable JetStream on the servers ("jetstream {}") and in the account of this user`
	case errors.Is(err, context.DeadlineExceeded), isAPI && api.Code == unavailable:
		return "check that more than half of the servers run, and their logs"
	}
	return "check the logs of the servers"
}

// ofStream returns the finding of a stream that exists with enough replicas.
func ofStream(t target, info *jetstream.StreamInfo) Finding {
	size := cell.Bytes(int64(info.State.Bytes))
	if info.Config.MaxBytes > 0 {
		size += " of " + cell.Bytes(info.Config.MaxBytes)
	}
	if age := info.Config.MaxAge; age > 0 {
		size += ", kept for " + condition.Duration(age)
	}
	c := info.Cluster
	if c == nil || c.Name == "" && len(c.Replicas) == 0 {
		return Finding{Result: OK, Detail: fmt.Sprintf("%s: on a single server, %s", t.what, size)}
	}
	const fix = "start the servers that are away, and check their logs"
	up, lag := 1, uint64(0)
	var away []string
	for _, r := range c.Replicas {
		lag = max(lag, r.Lag)
		switch {
		case r.Offline:
			away = append(away, r.Name+" is offline")
			continue
		case !r.Current:
			away = append(away, fmt.Sprintf("%s is not current (lag %d)", r.Name, r.Lag))
		}
		up++
	}
	all := len(c.Replicas) + 1
	switch {
	case c.Leader == "":
		return Finding{Result: Failed, Detail: t.what + ": has no leader, so no write works", Fix: fix}
	case 2*up <= all:
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s: has no quorum: %s", t.what, strings.Join(away, ", ")), Fix: fix}
	case away != nil:
		return Finding{Result: Warned, Detail: fmt.Sprintf("%s: leader %s, %s", t.what, c.Leader, strings.Join(away, ", ")), Fix: fix}
	}
	return Finding{Result: OK, Detail: fmt.Sprintf("%s: %d replicas, leader %s, lag %d, %s", t.what, all, c.Leader, lag, size)}
}

// Shares of the account's storage.
const (
	fullWarned = 0.75
	fullFailed = 0.95
)

// storage checks the limit of the account.
func (x *busExam) storage(ctx context.Context, js jetstream.JetStream) {
	if !x.role.may("$JS.API.INFO") {
		return // the streams have a finding each
	}
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		x.found("storage", Failed, streamRemedy(err), "%v", err)
		return
	}
	tiers := map[string]jetstream.Tier{"": info.Tier}
	if len(info.Tiers) > 0 {
		tiers = info.Tiers
	}
	for name, t := range tiers {
		x.report(ofTier(name, t))
	}
}

func ofTier(name string, t jetstream.Tier) Finding {
	used, limit := max(t.Store, t.ReservedStore), t.Limits.MaxStore
	f := Finding{Check: "storage", Result: OK, Detail: fmt.Sprintf("%s stored, %s reserved", cell.Bytes(int64(t.Store)), cell.Bytes(int64(t.ReservedStore)))}
	if name != "" {
		f.Detail = "tier " + name + ": " + f.Detail
	}
	if limit <= 0 {
		f.Detail += "; the account has no limit"
		return f
	}
	f.Detail += ", the limit of the account is " + cell.Bytes(limit)
	if share := float64(used) / float64(limit); share >= fullWarned {
		f.Result, f.Fix = Warned, "raise the limit of the account (max_file), or lower ledger.max_bytes of the pool files"
		if share >= fullFailed {
			f.Result = Failed
		}
	}
	return f
}
