package judge

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// SeverityOf returns how urgent a finding is.
func SeverityOf(e api.HealthEvent) api.Severity {
	switch e {
	case api.HealthAlarmEvent:
		return api.SeverityError
	case api.HealthNodeUnhealthy, api.HealthNodeQuarantined, api.HealthNodeHeld, api.HealthRepairFailed, api.HealthFenceUnconfirmed, api.HealthBreakerOpened, api.HealthZoneFrozen, api.HealthPathLost, api.HealthCheckUnknown:
		return api.SeverityWarning
	case api.HealthIgnored:
		return api.SeverityDebug
	}
	return api.SeverityInfo
}
