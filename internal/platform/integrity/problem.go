package integrity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Problem is a key or a whole bucket that contradicts an earlier reading.
type Problem struct {
	Bucket   string `json:"bucket"`
	Key      string `json:"key,omitempty"` // empty: the bucket
	Expected string `json:"expected"`
	Found    string `json:"found"`
	// Unreadable: the value itself is wrong. Only a new value or a removal helps; an operator cannot accept it.
	Unreadable bool `json:"unreadable,omitempty"`
	missing    bool // the key does not exist
	reported   bool // by the owner of the Guard
}

func (p Problem) String() string {
	where := "bucket " + p.Bucket
	if p.Key != "" {
		where += ", key " + p.Key
	}
	return fmt.Sprintf("%s: expected %s, found %s", where, p.Expected, p.Found)
}

// Undecodable returns the problem of a value that the store returns, but its reader cannot decode.
func Undecodable(bucket, key, expected string, err error) Problem {
	return Problem{Bucket: bucket, Key: key, Expected: expected, Found: fmt.Sprintf("an unreadable value: %.200s", err.Error()), Unreadable: true}
}

// Undecodable reports whether the store returns the value, but its reader cannot decode it.
func (p Problem) Undecodable() bool { return p.Unreadable && p.Found != damagedValue && !p.Forged() }

// Lost reports whether a key has disappeared.
func (p Problem) Lost() bool { return p.Key != "" && !p.Unreadable && p.Found == nothing }

// Forged reports whether another client made the server store the value.
func (p Problem) Forged() bool { return p.Unreadable && p.Found == forgedValue }

// forgedValue is what a reader finds if another client made the server store the value.
const forgedValue = "a value that does not come from its owner"

// nothing is what a reader finds in place of a key that has disappeared.
const nothing = "nothing"

// damagedValue is what a reader finds if the store cannot return a value.
const damagedValue = "a value that the store cannot read"

func damaged(bucket, key, expected string) Problem {
	return Problem{Bucket: bucket, Key: key, Expected: expected, Found: damagedValue, Unreadable: true}
}

func revision(n uint64) string { return fmt.Sprintf("revision %d", n) }

func orLater(n uint64) string { return revision(n) + " or later" }

// matches reports whether a filter is the key, or a prefix of it that ends in ".>". Without filters all keys match.
func matches(filters []string, key string) bool {
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool {
		prefix, all := strings.CutSuffix(f, ">")
		return f == key || all && strings.HasPrefix(key, prefix)
	})
}

// check compares the matching keys of a bucket with the seen revisions.
func (s *seen) check(bucket string, filters []string, c Contents) map[string]Problem {
	problems := map[string]Problem{}
	add := func(key, expected, found string) {
		problems[key] = Problem{Bucket: bucket, Key: key, Expected: expected, Found: found}
	}
	older := !s.created.IsZero() && c.Created.Before(s.created)
	newer := !s.created.IsZero() && c.Created.After(s.created)
	switch {
	case older:
		add("", "the bucket of "+stamp(s.created), "one of "+stamp(c.Created))
	case !newer && c.Last < s.last:
		add("", "a last sequence of "+fmt.Sprint(s.last)+" or later", fmt.Sprint(c.Last))
	}
	existing := make(map[string]bool, len(c.Keys))
	for _, k := range c.Keys {
		existing[k.Name] = true
		was, known := s.keys[k.Name]
		switch {
		case k.Damaged || k.Forged:
			expected := "a value"
			if known {
				expected = orLater(was.revision)
			}
			problems[k.Name], _ = k.problem(bucket, expected)
		case older && !known:
			add(k.Name, "nothing", revision(k.Revision))
		case known && !newer && (older || k.Revision < was.revision):
			add(k.Name, was.String(), revision(k.Revision))
		}
	}
	for name, was := range s.keys {
		if !existing[name] && !was.deleted && matches(filters, name) {
			problems[name] = Problem{Bucket: bucket, Key: name, Expected: was.String(), Found: nothing, missing: true}
		}
	}
	return problems
}

// ended returns lines that remove the deleted keys whose marker has ended.
func (s *seen) ended(filters []string, c Contents) (lines []line) {
	existing := make(map[string]bool, len(c.Keys))
	for _, k := range c.Keys {
		existing[k.Name] = true
	}
	for name, was := range s.keys {
		if was.deleted && !existing[name] && matches(filters, name) {
			lines = append(lines, line{Key: name})
		}
	}
	return lines
}

func (k seenKey) String() string {
	if k.deleted {
		return "a delete marker of " + orLater(k.revision)
	}
	return orLater(k.revision)
}

// sorted returns the problems in order of key. The bucket's own problem comes first.
func sorted(problems map[string]Problem) []Problem {
	return slices.SortedFunc(maps.Values(problems), func(a, b Problem) int { return cmp.Compare(a.Key, b.Key) })
}

// acceptable returns the problems that an operator can accept.
func acceptable(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Unreadable })
}

// digest returns a hash of a set of problems; empty for an empty set.
func digest(problems []Problem) string {
	if len(problems) == 0 {
		return ""
	}
	h := sha256.New()
	for _, p := range problems {
		fmt.Fprintf(h, "%q %q %q %q\n", p.Bucket, p.Key, p.Expected, p.Found)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
