package release_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

func TestYank(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "bad"})
	v2 := release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: "v1.4.1"}
	publish(t, b, v2, map[string]string{"run*": "good"})
	dir := t.TempDir()
	c := openCache(t, dir)
	in, _ := mustFetch(t, c, b, v1)

	why := release.Yanked{Why: "asks for ten times too much", At: today}
	done, err := release.Yank(t.Context(), b, v1, release.Platform{}, why)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "yanked", done, []release.Platform{linux})
	yanked := func(err error) {
		t.Helper()
		if !errors.Is(err, release.ErrYanked) || !strings.Contains(err.Error(), why.Why) || !strings.Contains(err.Error(), "2026-03-04T05:06:07Z") {
			t.Errorf("err = %v, want ErrYanked with its reason", err)
		}
	}
	yanked(refusal(t, c, b, v1))
	yanked(refusal(t, openCache(t, t.TempDir()), b, v1))
	if f, err := in.Open("run"); err != nil { // an installed release stays usable
		t.Errorf("Open of what was fetched before: %v", err)
	} else {
		f.Close()
	}
	_, err = tryPublish(t, b, v1, "bad", nil)
	yanked(err)

	t.Run("again", func(t *testing.T) {
		if _, err := release.Yank(t.Context(), b, v1, linux, why); err != nil {
			t.Errorf("the same yank: %v", err)
		}
		other := release.Yanked{Why: "another reason", At: today.Add(time.Hour)}
		if _, err := release.Yank(t.Context(), b, v1, linux, other); !errors.Is(err, release.ErrExists) || !strings.Contains(err.Error(), why.Why) {
			t.Errorf("another yank = %v, want ErrExists with the first reason", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, tc := range []struct {
			name     string
			ref      release.Ref
			platform release.Platform
			y        release.Yanked
			want     error
		}{
			{"not published", release.Ref{Namespace: "shop", Name: v1.Name, Version: "v9"}, release.Platform{}, why, release.ErrNotFound},
			{"not for this platform", v2, release.Platform{OS: "linux", Arch: "arm64"}, why, release.ErrNotFound},
			{"no reason", v2, linux, release.Yanked{At: today}, nil},
			{"two lines", v2, linux, release.Yanked{Why: "a\nb", At: today}, nil},
			{"bad ref", release.Ref{}, linux, why, nil},
		} {
			t.Run(tc.name, func(t *testing.T) {
				done, err := release.Yank(t.Context(), b, tc.ref, tc.platform, tc.y)
				if err == nil || len(done) > 0 || (tc.want != nil && !errors.Is(err, tc.want)) {
					t.Errorf("Yank = %v, %v, want %v", done, err, tc.want)
				}
				if tc.want == release.ErrNotFound && !strings.Contains(err.Error(), "v1.4.1") {
					t.Errorf("Yank = %v, want it to name what there is", err)
				}
			})
		}
	})
	t.Run("listed", func(t *testing.T) {
		found, err := release.List(t.Context(), b, "shop", "")
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "List", found, []release.Published{{Ref: v2, Platform: linux}, {Ref: v1, Platform: linux, Yanked: true}})
		shown, err := release.Show(t.Context(), b, v1, linux, release.Trust{})
		if err != nil || shown.Yanked == nil || *shown.Yanked != why {
			t.Errorf("Show = %+v, %v", shown, err)
		}
	})
	t.Run("unreadable yank", func(t *testing.T) {
		ref := release.Ref{Namespace: "shop", Name: "odd", Version: "v1"}
		m := publish(t, b, ref, map[string]string{"run*": "x"})
		put(t, b, objectKey(m, "yanked.json"), []byte("because"))
		if err := refusal(t, c, b, ref); !errors.Is(err, release.ErrYanked) {
			t.Errorf("Fetch = %v, want ErrYanked", err)
		}
	})
	t.Run("bucket away", func(t *testing.T) {
		server.Kill()
		err := refusal(t, openCache(t, dir), b, v1)
		yanked(err)
		if !errors.Is(err, release.ErrUnavailable) {
			t.Errorf("Fetch = %v, want it to say that the bucket is away", err)
		}
	})
}

// The error for a missing version lists the available ones.
func TestFetchErrorListsVersions(t *testing.T) {
	_, b := startBucket(t)
	ref := func(version string) release.Ref {
		return release.Ref{Namespace: "shop", Name: "web", Version: version}
	}
	for _, v := range []string{"v1.4.0", "v1.3.0", "v2.0.0", "master", "v1.4.9", "v0.1.0", "v0.2.0", "v0.3.0"} {
		publish(t, b, ref(v), map[string]string{"run*": v})
	}
	if _, err := release.Yank(t.Context(), b, ref("v1.4.9"), linux, release.Yanked{Why: "no", At: today}); err != nil {
		t.Fatal(err)
	}
	arm := release.Source{Path: writeFolder(t, map[string]string{"run*": "arm"}), Entry: "run", Created: today}
	if _, err := release.Publish(t.Context(), b, ref("v3"), release.Platform{OS: "linux", Arch: "arm64"}, arm); err != nil {
		t.Fatal(err)
	}
	c := openCache(t, t.TempDir())
	for _, tc := range []struct{ name, signal, version, wantText string }{
		{"close", "web", "v1.4.1", "; published are v1.4.0, v1.3.0, v2.0.0, v0.3.0, v0.2.0 and 2 more"},
		{"other platform", "web", "v3", "; this version is published for linux-arm64"},
		{"other signal", "wbe", "v1", "no version of shop/wbe for linux-amd64 is published"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := refusal(t, c, b, release.Ref{Namespace: "shop", Name: tc.signal, Version: tc.version})
			if !errors.Is(err, release.ErrNotFound) || !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("Fetch = %v, want ErrNotFound and %q", err, tc.wantText)
			}
		})
	}
}
