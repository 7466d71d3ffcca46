package memory_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
)

func TestMemoryConforms(t *testing.T) {
	metricstest.Run(t, func(*testing.T) metrics.Store { return &memory.Store{} })
}
