package placer

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// maxRow bounds the bytes of a row; a command is part of it.
const maxRow = 64 << 10

func decodeApp(key string, data []byte) (message.App, error) {
	if len(data) > maxRow {
		return message.App{}, fmt.Errorf("row of app %q has %d bytes: at most %d are taken", key, len(data), maxRow)
	}
	a, err := message.DecodeApp(data)
	if err != nil {
		return message.App{}, fmt.Errorf("row of app %q: %w", key, err)
	}
	if a.Name != key {
		return message.App{}, fmt.Errorf("row of app %q names itself %q", key, a.Name)
	}
	return a, nil
}
