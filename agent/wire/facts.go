package wire

import (
	"fmt"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"strings"
	"unicode"
	"unicode/utf8"
)

func IsPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CheckConditions returns the first mistake of a list, which may have at most limit conditions.
func CheckConditions(list []api.NodeCondition, limit int) error {
	if len(list) > limit {
		return fmt.Errorf("%d conditions: at most %d are allowed", len(list), limit)
	}
	seen := map[string]bool{}
	for _, c := range list {
		switch {
		case c.Type == "" || len(c.Type) > pools.MaxConditionType || !IsPrintable(c.Type):
			return fmt.Errorf("condition %.80q: want a type of 1 to %d printable bytes", c.Type, pools.MaxConditionType)
		case seen[c.Type]:
			return fmt.Errorf("condition %s occurs twice: list each type once", c.Type)
		case len(c.Why) > pools.MaxConditionWhy || !IsPrintable(c.Why):
			return fmt.Errorf("condition %s: why: want at most %d printable bytes", c.Type, pools.MaxConditionWhy)
		}
		seen[c.Type] = true
	}
	return nil
}
