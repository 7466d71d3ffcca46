package message

import (
	"bytes"
	"encoding/json"
)

// scanner reads JSON text from the left. It copies neither plain numbers nor strings of plain ASCII. encoding/json reads all
// other values.
type scanner struct {
	data []byte
	at   int
}

// space skips white space, and returns the byte behind it, 0 at the end.
func (s *scanner) space() byte {
	for ; s.at < len(s.data); s.at++ {
		if c := s.data[s.at]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// next skips white space, and then the byte. It returns false if another byte follows.
func (s *scanner) next(want byte) bool {
	if s.space() != want {
		return false
	}
	s.at++
	return true
}

// object reads the members of an object behind its first brace. It calls read behind the colon of each key, and returns
// false at a problem, or if read does.
func (s *scanner) object(read func(key []byte) bool) bool {
	if s.next('}') {
		return true
	}
	for {
		key := s.value()
		if kind(key) != '"' || !s.next(':') || !read(key[1:len(key)-1]) {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

// value returns the text of the next value, nil if there is no valid one. The content of a string has no escapes.
func (s *scanner) value() json.RawMessage {
	end := 0
	if s.space() == '"' {
		end = plainString(s.data[s.at:])
	} else {
		end = number(s.data[s.at:])
	}
	if end == 0 {
		return s.other()
	}
	s.at += end
	return s.data[s.at-end : s.at]
}

// plainString returns the length of the string at the beginning of the text, 0 if it is not a plain one.
func plainString(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c == '\\' || c > '~':
			return 0
		}
	}
	return 0
}

// number returns the length of the number at the beginning of the text, 0 if it has a sign or an exponent or is none.
func number(text []byte) int {
	end := digits(text)
	if end == 0 || end > 1 && text[0] == '0' {
		return 0
	}
	if end < len(text) && text[end] == '.' {
		fraction := digits(text[end+1:])
		if fraction == 0 {
			return 0
		}
		end += 1 + fraction
	}
	if end < len(text) && text[end]|' ' == 'e' {
		return 0
	}
	return end
}

// digits returns the number of decimal digits at the beginning of the text.
func digits(text []byte) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// other is value for a value of any kind.
func (s *scanner) other() json.RawMessage {
	var raw json.RawMessage
	d := json.NewDecoder(bytes.NewReader(s.data[s.at:]))
	if d.Decode(&raw) != nil {
		return nil
	}
	s.at += int(d.InputOffset())
	if text := ""; raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return json.RawMessage(`"` + text + `"`)
	}
	return raw
}
