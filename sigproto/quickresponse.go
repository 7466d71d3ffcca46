package sigproto

// quickReader reads responses in the form that our signals write, without an allocation for each.
type quickReader struct {
	values []float64 // memory for later responses
}

// slab is the number of values per allocation.
const slab = 64

// read returns false for any other form and for invalid responses. [parseResponse] handles those.
func (q *quickReader) read(data []byte) (Response, bool) {
	c := cursor{b: data}
	if !c.take('{') || !c.word("Resources") || !c.take(':') {
		return Response{}, false
	}
	var out Response
	if !q.resources(&c, &out.Resources) {
		return Response{}, false
	}
	for c.take(',') {
		key, ok := c.text()
		if !ok || !c.take(':') {
			return Response{}, false
		}
		value, ok := c.text()
		switch {
		case ok && string(key) == "Verdict" && out.Verdict == "" && len(value) > 0:
			out.Verdict = Verdict(value)
		case ok && string(key) == "Explanation" && out.Explanation == "" && len(value) > 0:
			out.Explanation = oneLine(string(value))
		default:
			return Response{}, false
		}
	}
	if !c.take('}') {
		return Response{}, false
	}
	c.space()
	if c.p != len(data) || out.Validate() != nil {
		return Response{}, false
	}
	return out, true
}

func (q *quickReader) resources(c *cursor, out *Resources) bool {
	if !c.take('{') {
		return false
	}
	for i, f := range out.fields() {
		if i > 0 && !c.take(',') || !c.word(f.name) || !c.take(':') {
			return false
		}
		if c.null() {
			continue
		}
		x, ok := c.float()
		if !ok {
			return false
		}
		if len(q.values) == 0 {
			q.values = make([]float64, slab)
		}
		q.values[0] = x
		*f.value = &q.values[0]
		q.values = q.values[1:]
	}
	return c.take('}')
}
