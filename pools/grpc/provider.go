// Package grpc is the provider for machines behind a server of cluster-autoscaler's protocol externalgrpc. A team writes such a
// server for its own cloud, in any language.
//
// # Reads
//
// Groups calls Refresh and NodeGroups of each server, and then NodeGroupTargetSize, NodeGroupNodes and NodeGroupTemplateNodeInfo
// of each selected group. Nothing is used longer than until the next Groups, except a template that cannot be read again. A server
// that does not answer makes its groups unknown. What a server answers is checked: an answer that contradicts itself makes its
// group unknown.
//
// # Writes
//
// The protocol has differences where pools.Group has absolute targets. A write reads the target first, and requests the difference
// to it. A write of unknown result blocks the next one until a read shows the result, for at most a minute. docs/adr/0127 has what
// this guarantees.
//
// Each machine has the weight 1. A provider and its groups may be used concurrently.
package grpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

const (
	// kind is GroupSnapshot.Kind of all groups.
	kind   = "grpc"
	atOnce = 16 // groups that are read at the same time
)

// machines is the pools.Provider of one pool.
type machines struct {
	pool    string
	log     *slog.Logger
	now     func() time.Time
	servers []*source

	mu     sync.Mutex
	groups map[string]*group // all groups found so far, by id
}

// source is a server with the selectors of the pool, and those of other pools.
type source struct {
	*server
	selectors []*selector
	others    []claim
}

// claim is a selector of another pool.
type claim struct {
	pool string
	*selector
}

// open returns the provider of a pool. It makes no call.
func open(site provider.Site) (*machines, error) {
	p := &machines{pool: site.Pool, log: site.Log, now: site.Now, groups: map[string]*group{}}
	if p.now == nil {
		p.now = time.Now
	}
	for _, g := range site.Groups {
		if s, ok := g.(*selector); ok {
			if err := p.add(s); err != nil {
				return nil, fmt.Errorf("open the server %s of pool %s: %w", s.Address, site.Pool, err)
			}
		}
	}
	if site.Others == nil {
		return p, nil
	}
	for pool, groups := range site.Others() {
		for _, g := range groups {
			if s, ok := g.(*selector); ok {
				p.claim(claim{pool, s})
			}
		}
	}
	return p, nil
}

// add adds a selector to the server that it is for.
func (p *machines) add(s *selector) error {
	for _, have := range p.servers {
		if have.selectors[0].sameServer(s) {
			have.selectors = append(have.selectors, s)
			return nil
		}
	}
	connected, err := connect(s)
	if err != nil {
		return err
	}
	p.servers = append(p.servers, &source{server: connected, selectors: []*selector{s}})
	return nil
}

// sameServer reports whether both selectors use one connection.
func (s *selector) sameServer(o *selector) bool {
	return s.Address == o.Address && s.timeout() == o.timeout() && (s.TLS == nil) == (o.TLS == nil) && (s.TLS == nil || *s.TLS == *o.TLS)
}

func (p *machines) claim(c claim) {
	for _, s := range p.servers {
		if s.address == c.Address {
			s.others = append(s.others, c)
		}
	}
}

// listing is one read of all servers.
type listing struct {
	groups  map[string]*found
	missing error
	notes   []pools.Note
}

// found is a group of a listing.
type found struct {
	from        *server
	least, most int
	err         error // why it cannot be read
	reading     *reading
	template    *template // nil: unknown
	templateErr error
}

// Groups implements pools.Provider. It reads all groups.
func (p *machines) Groups(ctx context.Context) (pools.Listing, error) {
	l := p.list(ctx)
	p.read(ctx, l)
	l.checkOwners()
	var out pools.Listing
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(l.groups) == 0 && len(p.groups) == 0 {
		var causes []error
		for _, n := range l.notes {
			causes = append(causes, n)
		}
		if err := errors.Join(append(causes, l.missing)...); err != nil {
			return out, fmt.Errorf("read the groups of pool %s: %w", p.pool, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		f := l.groups[id]
		g := p.groups[id]
		if g == nil || g.server != f.from {
			g = newGroup(f.from, id, p.now)
			p.groups[id] = g
		}
		g.store(f)
		l.note("template of group "+id, f.templateErr)
		out.Groups = append(out.Groups, g)
	}
	maps.DeleteFunc(p.groups, func(id string, g *group) bool { return l.missing == nil && l.groups[id] == nil && g.settled() })
	if out.Notes = l.notes; l.missing != nil {
		out.Missing = pools.Missing{kind: l.missing}
	}
	return out, nil
}

// store takes over what a read found. Without a new template the group keeps its last one.
func (g *group) store(f *found) {
	g.mu.Lock()
	if f.err == nil {
		g.least, g.most = f.least, f.most
		g.own.overlay(f.reading, g.now())
	}
	if f.template != nil {
		g.template, g.templated = *f.template, true
	} else if f.err == nil && f.templateErr == nil {
		g.templated = false
	}
	g.mu.Unlock()
	g.update(f.reading, f.err)
}

func (l *listing) note(part string, err error) {
	if err != nil {
		l.notes = append(l.notes, pools.Note{Part: part, Err: err})
	}
}

// list reads the lists of all servers at the same time.
func (p *machines) list(ctx context.Context) *listing {
	ctx, cancel := part(ctx)
	defer cancel()
	l := &listing{groups: map[string]*found{}}
	answers, errs := make([][]*externalgrpc.NodeGroup, len(p.servers)), make([]error, len(p.servers))
	var wg sync.WaitGroup
	for i, s := range p.servers {
		wg.Go(func() { answers[i], errs[i] = s.list(ctx) })
	}
	wg.Wait()
	for i, s := range p.servers {
		if errs[i] != nil {
			l.missing = errors.Join(l.missing, errs[i])
			continue
		}
		for _, g := range answers[i] {
			l.add(s, g)
		}
		l.checkSelectors(s, answers[i])
	}
	return l
}

// add adds a group of a server, if the pool selects it.
func (l *listing) add(s *source, g *externalgrpc.NodeGroup) {
	id := g.GetId()
	if !validGroup(id) {
		l.note(fmt.Sprintf("group %.80q of %s", id, s.address), fmt.Errorf("%s lists a group with the id %.80q, which is ignored: want at most %d printable characters", s.address, id, maxGroupID))
		return
	}
	if !slices.ContainsFunc(s.selectors, func(s *selector) bool { return s.selects(id) }) {
		return
	}
	if twice := l.groups[id]; twice != nil {
		twice.err = fmt.Errorf("group %s is listed twice, by %s and %s", id, twice.from.address, s.address)
		return
	}
	f := &found{from: s.server}
	l.groups[id] = f
	if f.least, f.most, f.err = bounds(g); f.err != nil {
		f.err = fmt.Errorf("group %s of %s: %w", id, s.address, f.err)
	}
	for _, c := range s.others {
		if c.selects(id) {
			f.err = fmt.Errorf("group %s is in two pools: the file of pool %s selects it too", id, c.pool)
		}
	}
}

// checkSelectors records what the selectors of a server did not find. A group that the pool file names exists: it is unknown.
func (l *listing) checkSelectors(s *source, answer []*externalgrpc.NodeGroup) {
	for _, sel := range s.selectors {
		switch {
		case slices.ContainsFunc(answer, func(g *externalgrpc.NodeGroup) bool { return sel.selects(g.GetId()) }):
		case sel.named():
			l.groups[sel.Group] = &found{from: s.server, err: fmt.Errorf("%s lists no group %s", s.address, sel.Group)}
		default:
			l.note(fmt.Sprintf("groups of %s that fit %q", s.address, sel.Group), fmt.Errorf("%s lists no group that fits %q", s.address, sel.Group))
		}
	}
}

// read reads the groups of a listing.
func (p *machines) read(ctx context.Context, l *listing) {
	ctx, cancel := part(ctx)
	defer cancel()
	var work errgroup.Group
	work.SetLimit(atOnce)
	for id, f := range l.groups {
		if f.err != nil {
			continue
		}
		work.Go(func() error {
			if f.reading, f.err = f.from.group(ctx, id, p.now()); f.err != nil {
				return nil
			}
			t, ok, err := f.from.template(ctx, id)
			if f.templateErr = err; ok {
				f.template = &t
			}
			return nil
		})
	}
	_ = work.Wait() // each group has its error
}

// checkOwners makes groups unknown that have an instance of another group.
func (l *listing) checkOwners() {
	owners := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		f := l.groups[id]
		if f.err != nil {
			continue
		}
		for _, i := range f.reading.instances {
			other, twice := owners[i.ID]
			if owners[i.ID] = id; twice && other != id {
				err := fmt.Errorf("instance %s is in the groups %s and %s", i.ID, other, id)
				l.groups[other].err, f.err = err, err
			}
		}
	}
}

// part bounds one of several reads to half of the remaining time, so that one that waits leaves time for the others.
func part(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// rights tests the calls that change nothing.
func (p *machines) rights(ctx context.Context, _ bool) ([]provider.Right, error) {
	found, err := p.Groups(ctx)
	if err = errors.Join(err, found.Missing.Err()); err != nil {
		return nil, err
	}
	var all []provider.Right
	read := 0
	for _, g := range found.Groups {
		if _, err := g.Snapshot(ctx); err != nil {
			all = append(all, provider.Right{Action: "group " + g.ID(), Result: provider.Denied, Why: err.Error()})
		} else {
			read++
		}
	}
	if read > 0 {
		all = append(all, provider.Right{Action: fmt.Sprintf("reads of %d groups", read), Result: provider.Granted})
	}
	for _, err := range found.Notes {
		all = append(all, provider.Right{Action: "template", Why: err.Error()})
	}
	return all, nil
}
