package command

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

func TestChildrenGetNoKeysAndNoSocketOfSystemd(t *testing.T) {
	got := daemon.WithoutKeys([]string{
		"PATH=/bin", "AWS_SECRET_ACCESS_KEY=s", "WEIR_NATS=nats://u:p@h", "WEIR_SIGN_PASSWORD=p", "NOTIFY_SOCKET=/run/notify",
		"WATCHDOG_USEC=1", "WATCHDOG_PID=2", "CREDENTIALS_DIRECTORY=/run/credentials/x",
	})
	if want := []string{"PATH=/bin", "CREDENTIALS_DIRECTORY=/run/credentials/x"}; !slices.Equal(got, want) {
		t.Errorf("WithoutKeys = %q, want %q", got, want)
	}
}
