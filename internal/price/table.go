package price

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
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

// history is the output of "aws ec2 describe-spot-price-history".
type history struct {
	SpotPriceHistory []spotPrice `json:"SpotPriceHistory"`
	NextToken        string      `json:"NextToken"`
}

type spotPrice struct {
	Timestamp          time.Time `json:"Timestamp"`
	ProductDescription string    `json:"ProductDescription"`
	InstanceType       string    `json:"InstanceType"`
	SpotPrice          string    `json:"SpotPrice"`
	AvailabilityZone   string    `json:"AvailabilityZone"`
}

// AddSpotHistory adds the prices of a product in the output of "aws ec2 describe-spot-price-history", in any order. If product is
// empty, the history must have one product. The names of zones must be of the account that the prices are for: accounts name them
// differently.
func (p *Prices) AddSpotHistory(name string, data []byte, product string) error {
	var h history
	field, err := strictjson.Lenient(data, &h, "SpotPriceHistory")
	if err = errors.Join(err, field); err != nil {
		return fmt.Errorf("read spot history %s: %w", name, err)
	}
	if h.NextToken != "" {
		return fmt.Errorf("read spot history %s: it ends before the last page: run the AWS CLI without --max-items and --no-paginate", name)
	}
	found := false
	for i, one := range h.SpotPriceHistory {
		switch {
		case one.ProductDescription == "":
			return fmt.Errorf("read spot history %s: SpotPriceHistory[%d]: ProductDescription is missing", name, i)
		case one.ProductDescription == product:
		case product != "":
			continue
		case one.ProductDescription != h.SpotPriceHistory[0].ProductDescription:
			return fmt.Errorf("read spot history %s: it has the products %q and %q: name one", name, h.SpotPriceHistory[0].ProductDescription, one.ProductDescription)
		}
		found = true
		if err := p.addSpotPrice(one); err != nil {
			return fmt.Errorf("read spot history %s: SpotPriceHistory[%d]: %w", name, i, err)
		}
	}
	if !found {
		return fmt.Errorf("read spot history %s: it has no price of product %q", name, product)
	}
	return nil
}

func (p *Prices) addSpotPrice(one spotPrice) error {
	price, err := strconv.ParseFloat(one.SpotPrice, 64)
	if err != nil {
		return fmt.Errorf("SpotPrice is %q: want a number", one.SpotPrice)
	}
	if one.InstanceType == "" || one.AvailabilityZone == "" || one.Timestamp.IsZero() {
		return errors.New("InstanceType, AvailabilityZone or Timestamp is empty")
	}
	return p.Set(Market{Type: one.InstanceType, Zone: one.AvailabilityZone, Spot: true}, one.Timestamp, price)
}
