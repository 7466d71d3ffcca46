package release

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
)

// namedBucket is a bucket with only a URL.
type namedBucket struct {
	Bucket
	url string
}

func (b namedBucket) URL(string) string { return b.url }

func TestIndexLookup(t *testing.T) {
	m := validManifest()
	raw, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(bucketRecord{manifest: m, Raw: raw, Yanked: &Yanked{Why: "broken"}})
	if err != nil {
		t.Fatal(err)
	}
	here := namedBucket{url: "s3://here/"}
	for _, tc := range []struct {
		name     string
		bucket   Bucket
		data     []byte
		index    func(index) index
		wantText string // the error; empty: found
	}{
		{"remembered", here, data, nil, ""},
		{"from another bucket", namedBucket{url: "s3://there/"}, data, nil, "not in the cache"},
		{"for another platform", here, data, func(x index) index { x.platform.Arch = "arm64"; return x }, "not in the cache"},
		{"damaged", here, data[1:], nil, "cache index"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := index{shareddir.Dir(t.TempDir()), m.Platform}
			if err := x.write(indexEntry{x.path(here, m.Ref), tc.data}); err != nil {
				t.Fatal(err)
			}
			if tc.index != nil {
				x = tc.index(x)
			}
			got, err := x.lookup(tc.bucket, m.Ref)
			if tc.wantText != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantText) {
					t.Errorf("lookup = %v, want an error with %q", err, tc.wantText)
				}
				return
			}
			if err != nil || got.manifest.Ref != m.Ref || got.Yanked == nil || got.Yanked.Why != "broken" {
				t.Errorf("lookup = %+v, %v", got, err)
			}
		})
	}
}

func TestIndexRecordsOnlyPresentFiles(t *testing.T) {
	x := index{shareddir.Dir(t.TempDir()), Host()}
	n := indexEntry{filepath.Join(x.dir(), "a.json"), []byte("{}")}
	if err := x.remember(t.Context(), Installed{Dir: filepath.Join(string(x.folder), "gone")}, n); !errors.Is(err, errGone) {
		t.Errorf("remember = %v, want errGone", err)
	}
	if _, err := os.Stat(n.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note was written: %v", err)
	}
}
