package natsbus

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// Credentials requests the user and password of the cloud controller's bulk API. It returns
// the first answer.
func (b *Bus) Credentials(ctx context.Context) (message.Credentials, error) {
	subject := message.CredentialsSubject(b.cfg.Partition)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	m, err := bus.Request(ctx, b.nc, subject, nil)
	if err != nil {
		return message.Credentials{}, fmt.Errorf("request %s: %w", subject, err)
	}
	c, err := message.DecodeCredentials(m.Data)
	if err != nil {
		return message.Credentials{}, fmt.Errorf("request %s: %w", subject, err)
	}
	return c, nil
}
