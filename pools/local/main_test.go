package local_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }
