package message

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
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

// skip advances behind the text. It returns false if other text follows.
func (s *scanner) skip(text string) bool {
	end := s.at + len(text)
	if end > len(s.data) || string(s.data[s.at:end]) != text {
		return false
	}
	s.at = end
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
	c, start := s.space(), s.at
	if c == '"' {
		s.at++
		if s.plain() != nil {
			return s.data[start:s.at]
		}
		s.at = start
	} else if _, _, length := number(s.data[start:]); length > 0 {
		s.at += length
		return s.data[start:s.at]
	}
	return s.other()
}

// plain skips the rest of a plain string behind its first quote, and returns its content. It returns nil if the string is not plain.
// It tests eight bytes at once. The lowest byte of odd with its highest bit set is a quote, or is not plain.
func (s *scanner) plain() []byte {
	text, i := s.data[s.at:], 0
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		odd := x | (x - ' '*each) | (x ^ '"'*each - each) | (x ^ '\\'*each - each)
		if odd &= 0x80 * each; odd != 0 {
			i += bits.TrailingZeros64(odd) / 8
			break
		}
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			s.at += i + 1
			return text[:i]
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return nil
		}
	}
	return nil
}

// exact is the longest number whose n is right.
const exact = 19

// number decodes the number at the beginning of the text, which is n / 10^places. The length is 0 if the number has a sign or an
// exponent, or is invalid.
func number(text []byte) (n uint64, places, length int) {
	point := 0
	for ; length < len(text); length++ {
		if c := text[length]; '0' <= c && c <= '9' {
			n = n*10 + uint64(c-'0')
		} else if c == '.' && point == 0 {
			point = length
		} else {
			break
		}
	}
	switch {
	case length == 0, text[0] == '.', text[length-1] == '.', length > 1 && text[0] == '0' && point != 1,
		length < len(text) && text[length]|' ' == 'e':
		return 0, 0, 0
	case point > 0:
		places = length - 1 - point
	}
	return n, places, length
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
