package bus

import (
	"encoding/json"
	"fmt"
)

// Lists sends items as JSON lists, in order. Each list has at most `most` bytes, unless a single item is longer. send
// may use the bytes only until it returns.
func Lists[T any](items []T, most int, send func(list []byte) error) error {
	list := []byte{'['}
	flush := func() error {
		if len(list) == 1 {
			return nil
		}
		list[len(list)-1] = ']'
		err := send(list)
		list = list[:1]
		return err
	}
	for _, item := range items {
		one, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("write %T: %w", item, err)
		}
		if len(list)+len(one) > most {
			if err := flush(); err != nil {
				return err
			}
		}
		list = append(append(list, one...), ',')
	}
	return flush()
}
