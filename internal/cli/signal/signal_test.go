package signal

import "testing"

// Only a version that the Go command can fetch is one for a signal's go.mod.
func TestIsReleased(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true, "v0.0.0-20260102030405-0123456789ab": true,
		"v1.2.3+dirty": false, "v0.0.0-20260102030405-0123456789ab+dirty": false,
		"devel": false, "devel-0123456789ab": false, "unknown": false, "": false,
	} {
		if isReleased(version) != want {
			t.Errorf("isReleased(%q) = %v, want %v", version, !want, want)
		}
	}
}
