package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/rowfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Resources of an instance of a new application for which they are not given.
const (
	defaultCPUs = 0.1
	defaultMem  = 64 // MB
)

// readFile reads the applications of a file, or of standard input for "-". The error has all mistakes of the file.
func (cli files) readFile(path string) (rows []rowfile.Row, err error) {
	name, text, err := cli.ReadInput(path, rowfile.MaxFile)
	if err != nil {
		return nil, err
	}
	rows, err = rowfile.Decode(name, text)
	problems, _ := errors.AsType[strictyaml.Problems](err)
	for i := range rows {
		problems = append(problems, complete(name, &rows[i])...)
	}
	if err := problems.OrNil(); err != nil {
		return nil, usage.New(err)
	}
	return rows, nil
}

// complete adds the defaults of "weir app set" to a row, and returns what such a command cannot write.
func complete(file string, row *rowfile.Row) (problems strictyaml.Problems) {
	has := func(key string) bool { return row.Keys[key] != 0 }
	bad := func(line int, what string) {
		problems = append(problems, &strictyaml.Problem{File: file, Line: line, What: "app " + row.App.Name + ": " + what})
	}
	if row.App.Command == "" {
		bad(cmp.Or(row.Keys["command"], row.Line), "command is missing")
	}
	if has("updated") {
		bad(row.Keys["updated"], "updated is set by the command: remove it")
	}
	if !has("cpus") {
		row.App.CPUs = defaultCPUs
	}
	if !has("mem") {
		row.App.Mem = defaultMem
	}
	if !has("version") {
		row.App.Version = ""
	}
	return problems
}

// changeKind is what a file changes of an application.
type changeKind string

const (
	changeNone    changeKind = "unchanged"
	changeCreated changeKind = "created"
	changeChanged changeKind = "changed"
	changeDeleted changeKind = "deleted"
)

// keyChange is a key of a row with two values. An empty text is a missing key.
type keyChange struct {
	Key    string `json:"key"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String returns "instances 2 -> 5".
func (k keyChange) String() string {
	return fmt.Sprintf("%s %s -> %s", k.Key, cmp.Or(k.Before, "none"), cmp.Or(k.After, "none"))
}

// appChange is what a file changes of one application.
type appChange struct {
	App    string      `json:"app"`
	Change changeKind  `json:"change"`
	Keys   []keyChange `json:"keys,omitempty"`

	old, row api.App // as it is and as it will be
	revision uint64  // of the row that is there; 0: none
}

// changes compares a file with the rows of the bucket, in order of the file. With prune, it has the rows that are not in the file, too.
// others are the names of these rows.
func (cli files) changes(ctx context.Context, b *bus.Bus, rows []rowfile.Row, prune bool) (all []appChange, others []string, err error) {
	if err := checkBucket(ctx, b, cli.Cluster); err != nil {
		return nil, nil, err
	}
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cli.Cluster))
	if err != nil {
		return nil, nil, fmt.Errorf("list applications: %w", err)
	}
	there := map[string]integrity.Key{}
	for _, k := range found.Keys {
		if !k.Deleted {
			there[k.Name] = k
		}
	}
	now := time.Now()
	for _, row := range rows {
		k, is := there[row.App.Name]
		delete(there, row.App.Name)
		c, err := changeOf(row, k, is, now)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		others = append(others, name)
		if _, err := rowOfApp(there[name]); err == nil && prune {
			all = append(all, appChange{App: name, Change: changeDeleted, revision: there[name].Revision})
		} else if prune {
			fmt.Fprintf(cli.Stderr, "weir: warning: %v; --prune does not delete it\n", err)
		}
	}
	return all, others, nil
}

// changeOf compares a row of the file with that of the bucket.
func changeOf(row rowfile.Row, k integrity.Key, is bool, now time.Time) (appChange, error) {
	var old api.App
	c := appChange{App: row.App.Name, Change: changeCreated, revision: k.Revision}
	if is {
		var err error
		c.Change = changeChanged
		if old, err = rowOfApp(k); err != nil && k.Damaged {
			return c, err
		}
	} else {
		c.revision = 0
	}
	c.old, c.row = old, applied(old, row, now)
	if err := message.ValidateApp(c.row); err != nil {
		return c, fmt.Errorf("app %s: %w", c.App, err)
	}
	if c.Keys = keyChanges(old, c.row); len(c.Keys) == 0 {
		c.Change = changeNone
	}
	return c, nil
}

// applied returns the row that the file makes of the old one. A key that is not in the file has its default. What only commands set stays: the
// time of the last restart, and the history.
func applied(old api.App, row rowfile.Row, now time.Time) api.App {
	next := row.App
	next.Restarted, next.History = old.Restarted, old.History
	if next.Version != "" {
		return withHistory(old, next, now)
	}
	next.Version = old.Version
	return withVersion(old, next, now)
}

// keyChanges returns the keys in which two rows differ, in order of name.
func keyChanges(old, next api.App) (changes []keyChange) {
	before, after := texts(old), texts(next)
	if old.Name == "" {
		before = nil
	}
	keys := maps.Clone(after)
	maps.Copy(keys, before)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if before[key] != after[key] {
			changes = append(changes, keyChange{key, before[key], after[key]})
		}
	}
	return changes
}

// texts returns the values of a row by the paths of their keys: "ready.http.port". It lacks the name and what only commands set.
func texts(a api.App) map[string]string {
	a.History, a.Restarted, a.Updated = nil, time.Time{}, time.Time{}
	a.State, a.Package = cmp.Or(a.State, api.AppStarted), cmp.Or(a.Package, api.PackageStaged)
	text, _ := json.Marshal(a) // plain values: never an error
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&tree)
	delete(tree, "name")
	delete(tree, "updated")
	out := map[string]string{}
	for key, v := range tree {
		flatten(out, key, v)
	}
	return out
}

func flatten(into map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, v := range v {
			flatten(into, path+"."+key, v)
		}
	case []any:
		text, _ := json.Marshal(v) // decoded JSON: never an error
		into[path] = string(text)
	case string:
		into[path] = fmt.Sprintf("%q", v)
	default:
		into[path] = fmt.Sprint(v)
	}
}

// counts returns "3 applications: 1 created, 1 changed, 1 unchanged, 0 deleted".
func counts(all []appChange) string {
	n := map[changeKind]int{}
	for _, c := range all {
		n[c.Change]++
	}
	return fmt.Sprintf("%s: %d created, %d changed, %d unchanged, %d deleted",
		applications(len(all)), n[changeCreated], n[changeChanged], n[changeNone], n[changeDeleted])
}

func applications(n int) string { return prose.Count(n, "application") }

// line describes the change of an application.
func (c appChange) line() string {
	switch c.Change {
	case changeCreated:
		return fmt.Sprintf("%s: created: %s", c.App, instancesLine(c.row))
	case changeChanged:
		var keys []string
		for _, k := range c.Keys {
			keys = append(keys, k.String())
		}
		return fmt.Sprintf("%s: changed: %s", c.App, strings.Join(keys, ", "))
	}
	return fmt.Sprintf("%s: %s", c.App, c.Change)
}

// instancesLine returns "2 instances of version 1a9c03f2 in pool default", or that the application is stopped.
func instancesLine(row api.App) string {
	if row.State == api.AppStopped {
		return fmt.Sprintf("stopped (%s of version %s in pool %s when started)", prose.Count(row.Instances, "instance"), row.Version, row.Pool)
	}
	return fmt.Sprintf("%s of version %s in pool %s", prose.Count(row.Instances, "instance"), row.Version, row.Pool)
}
