package sigproto

// cursor reads JSON tokens one after another. Each method reports whether the token was there. If not, short means that
// it may be incomplete.
type cursor struct {
	b     []byte
	p     int
	short bool
}

func (c *cursor) space() {
	for c.p < len(c.b) && isSpace(c.b[c.p]) {
		c.p++
	}
}

// take reads white space and the byte want.
func (c *cursor) take(want byte) bool {
	c.space()
	if c.p == len(c.b) {
		c.short = true
		return false
	}
	if c.b[c.p] != want {
		return false
	}
	c.p++
	return true
}

// separator reads white space and one byte of any kind.
func (c *cursor) separator() (byte, bool) {
	c.space()
	if c.p == len(c.b) {
		c.short = true
		return 0, false
	}
	c.p++
	return c.b[c.p-1], true
}

// text reads a string of printable ASCII without escapes.
func (c *cursor) text() ([]byte, bool) {
	if !c.take('"') {
		return nil, false
	}
	for i, b := range c.b[c.p:] {
		if b == '"' {
			text := c.b[c.p : c.p+i]
			c.p += i + 1
			return text, true
		}
		if b < ' ' || b > '~' || b == '\\' {
			return nil, false
		}
	}
	c.short = true
	return nil, false
}

// word reads the string want.
func (c *cursor) word(want string) bool {
	text, ok := c.text()
	return ok && string(text) == want
}

// integer reads a whole number of at most 15 digits.
func (c *cursor) integer() (int64, bool) {
	c.space()
	n := c.p
	if n < len(c.b) && c.b[n] == '-' {
		n++
	}
	end, sum := digitRun(c.b, n, 0)
	if end == len(c.b) {
		c.short = true
		return 0, false
	}
	digits := end - n
	if digits == 0 || digits > 15 || digits > 1 && c.b[n] == '0' {
		return 0, false
	}
	switch c.b[end] {
	case '.', 'e', 'E':
		return 0, false
	}
	value := int64(sum)
	if n > c.p {
		value = -value
	}
	c.p = end
	return value, true
}

// float reads a number.
func (c *cursor) float() (float64, bool) {
	c.space()
	v, size := number(c.b[c.p:])
	if c.p+size == len(c.b) || size == 0 && len(c.b)-c.p < lookahead {
		c.short = true // more digits may follow
		return 0, false
	}
	if size == 0 {
		return 0, false
	}
	c.p += size
	return v, true
}

// point reads [time,value].
func (c *cursor) point() (t int64, v float64, ok bool) {
	if !c.take('[') {
		return 0, 0, false
	}
	if t, ok = c.integer(); !ok || !c.take(',') {
		return 0, 0, false
	}
	if v, ok = c.float(); !ok {
		return 0, 0, false
	}
	return t, v, c.take(']')
}

// null reads the word null.
func (c *cursor) null() bool {
	c.space()
	if len(c.b)-c.p < len("null") || string(c.b[c.p:c.p+len("null")]) != "null" {
		return false
	}
	c.p += len("null")
	return true
}
