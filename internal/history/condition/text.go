package condition

import (
	"fmt"
	"strconv"
	"time"
)

// Duration returns a duration for people, in its largest unit: "39 s", "21 min", "2 h", "3 d".
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// number returns a weight for people: 9.1182 -> "9.12", 12345.6 -> "12346".
func number(x float64) string {
	digits := 2
	if x >= 1000 || x <= -1000 {
		digits = 0
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	for digits > 0 && text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	return text
}

// are returns "is" or "are", for a number of things.
func are(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
