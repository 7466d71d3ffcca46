package apps

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// SeverityOf returns how urgent a finding is.
func SeverityOf(k api.AppFindingKind) api.Severity {
	switch k {
	case api.AppFindingComplete, api.AppFindingReleased, api.AppFindingRetried, api.AppFindingSenderRight, api.AppFindingUpdated,
		api.AppFindingReady, api.AppFindingConfiguration:
		return api.SeverityInfo
	case api.AppFindingIncomplete, api.AppFindingNodeLost, api.AppFindingFlapping, api.AppFindingGaveUp, api.AppFindingLimitHeld, api.AppFindingLimitThrottled,
		api.AppFindingSenderWrong, api.AppFindingHalted, api.AppFindingNotReady:
		return api.SeverityWarning
	}
	return api.SeverityDebug
}
