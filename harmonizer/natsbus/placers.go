package natsbus

import (
	"context"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

var _ harmonizer.Placers = (*Bus)(nil)

// Placed implements harmonizer.Placers.
func (b *Bus) Placed(ctx context.Context, pool string, copies []api.PlacedCopy) (api.PlacedAnswer, error) {
	var answer api.PlacedAnswer
	err := call.Request(ctx, b.nc, message.PlacedSubject(b.cfg.Cluster, pool), api.PlacedQuery{Copies: copies}, &answer)
	return answer, err
}
