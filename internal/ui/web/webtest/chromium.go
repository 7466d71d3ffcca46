package webtest

import (
	"os"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// Axe returns the script of the accessibility checker axe-core.
func Axe(t testing.TB) string {
	t.Helper()
	path, err := testprograms.Axe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
