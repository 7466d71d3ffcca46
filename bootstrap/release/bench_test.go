package release_test

import (
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

// BenchmarkFetch fetches an incompressible binary of 20 MB, into an empty cache and from a cache that has it.
func BenchmarkFetch(b *testing.B) {
	const size = 20 << 20
	server := s3test.Start(b, bucketName)
	bucket, err := s3store.Open(b.Context(), s3store.Config{Bucket: bucketName, Endpoint: server.Endpoint, PathStyle: true})
	if err != nil {
		b.Fatal(err)
	}
	dir := writeFolder(b, map[string]string{"run*": incompressible(size)})
	src := release.Source{Path: filepath.Join(dir, "run"), Created: today}
	if _, err := release.Publish(b.Context(), bucket, v1, linux, src); err != nil {
		b.Fatal(err)
	}
	fetch := func(b *testing.B, dir string) {
		cache, err := release.OpenCache(b.Context(), release.Config{Dir: dir, Platform: linux})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := cache.Fetch(b.Context(), bucket, v1); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("download", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			fetch(b, b.TempDir())
		}
	})
	b.Run("cached", func(b *testing.B) {
		cached := b.TempDir()
		fetch(b, cached)
		b.SetBytes(size)
		for b.Loop() {
			fetch(b, cached)
		}
	})
}

// BenchmarkOpen verifies a binary of 20 MB before its start and copies it into sealed memory.
func BenchmarkOpen(b *testing.B) {
	const size = 20 << 20
	server := s3test.Start(b, bucketName)
	bucket, err := s3store.Open(b.Context(), s3store.Config{Bucket: bucketName, Endpoint: server.Endpoint, PathStyle: true})
	if err != nil {
		b.Fatal(err)
	}
	src := release.Source{Path: filepath.Join(writeFolder(b, map[string]string{"run*": incompressible(size)}), "run"), Created: today}
	if _, err := release.Publish(b.Context(), bucket, v1, linux, src); err != nil {
		b.Fatal(err)
	}
	cache, err := release.OpenCache(b.Context(), release.Config{Dir: b.TempDir(), Platform: linux})
	if err != nil {
		b.Fatal(err)
	}
	in, err := cache.Fetch(b.Context(), bucket, v1)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		f, err := in.Open(in.Entry)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
