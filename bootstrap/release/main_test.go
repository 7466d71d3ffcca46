package release_test

import (
	"os"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	runIfFetcher()
	runIfFull()
	os.Exit(m.Run())
}
