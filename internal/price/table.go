package price

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// columns of a table. Only price is required.
var columns = []string{"type", "zone", "spot", "from", "price"}

// AddTable adds the rows of a CSV table. Its first row names the columns: price, for an hour, and if needed type, zone, spot (true or
// false) and from (RFC 3339). An empty type or zone means each one, an empty from always. The errors name the file and the line.
func (p *Prices) AddTable(name string, data []byte) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("read prices %s: it is not UTF-8", name)
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.TrimLeadingSpace = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("read prices %s: the first row, of the columns %s: %w", name, strings.Join(columns, ","), err)
	}
	at := map[string]int{}
	for i, column := range head {
		if _, twice := at[column]; twice || !slices.Contains(columns, column) {
			return fmt.Errorf("%s:1: column %q is unknown or given twice: want %s", name, column, strings.Join(columns, ","))
		}
		at[column] = i
	}
	if _, there := at["price"]; !there {
		return fmt.Errorf("%s:1: column price is missing", name)
	}
	p.files = append(p.files, name)
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read prices %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		if err := p.addRow(func(column string) string {
			if k, there := at[column]; there {
				return strings.TrimSpace(row[k])
			}
			return ""
		}); err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}

func (p *Prices) addRow(cell func(column string) string) error {
	m := Market{Type: cell("type"), Zone: cell("zone")}
	switch spot := cell("spot"); spot {
	case "true":
		m.Spot = true
	case "false", "":
	default:
		return fmt.Errorf("spot is %q: want true or false", spot)
	}
	var from time.Time
	if text := cell("from"); text != "" {
		var err error
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("from is %q: want a time as 2026-03-01T00:00:00Z", text)
		}
	}
	price, err := strconv.ParseFloat(cell("price"), 64)
	if err != nil {
		return fmt.Errorf("price is %q: want a number", cell("price"))
	}
	return p.Set(m, from, price)
}

// Table returns the prices as AddTable reads them, in order of type, zone and time. A price that does not change has one row.
func (p *Prices) Table() []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.Write(columns) // a buffer never fails
	for _, m := range p.markets() {
		for i, c := range p.changes[m] {
			if i > 0 && p.changes[m][i-1].price == c.price {
				continue
			}
			from := ""
			if !c.from.IsZero() {
				from = c.from.UTC().Format(time.RFC3339)
			}
			w.Write([]string{m.Type, m.Zone, strconv.FormatBool(m.Spot), from, strconv.FormatFloat(c.price, 'f', -1, 64)})
		}
	}
	w.Flush()
	return out.Bytes()
}

// markets returns the markets with a price, in order of type, spot and zone.
func (p *Prices) markets() []Market {
	return slices.SortedFunc(maps.Keys(p.changes), func(x, y Market) int {
		return cmp.Or(strings.Compare(x.Type, y.Type), strings.Compare(strconv.FormatBool(x.Spot), strconv.FormatBool(y.Spot)), strings.Compare(x.Zone, y.Zone))
	})
}
