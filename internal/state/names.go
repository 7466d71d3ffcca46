package state

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// checkNames refuses what is not one token of a subject: it would be written
// where nobody reads, or read what is another pool's.
func checkNames(cluster, pool string) error {
	if !message.ValidName(cluster) {
		return fmt.Errorf("cluster %q is no name of a cluster", cluster)
	}
	if !message.ValidName(pool) {
		return fmt.Errorf("pool %q is no name of a pool", pool)
	}
	return nil
}
