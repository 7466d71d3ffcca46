//go:build !race || full

package testsize

import "os"

// Full reports whether tests try all cases.
func Full() bool { return os.Getenv(FewerVariable) == "" }
