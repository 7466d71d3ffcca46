package doctor

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	if bustest.RunServer() {
		return
	}
	m.Run()
}
