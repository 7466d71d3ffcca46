package price_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

func TestTable(t *testing.T) {
	var p price.Prices
	err := p.AddTable("prices.csv", []byte("type, zone, spot, price, from\nm5.large,,false,0.096,\nm5.large,a,true,0.03,\nm5.large,a,true,0.05,2026-03-01T13:00:00Z\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Between(price.Market{Type: "m5.large", Zone: "a", Spot: true}, noon, noon.Add(2*time.Hour))
	if err != nil || got != 80_000_000 {
		t.Errorf("two hours cost %d, %v, want 0.08", got, err)
	}
}

func TestBadTables(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "read prices p.csv: the first row, of the columns type,zone,spot,from,price: EOF"},
		{"type,cost\n", `p.csv:1: column "cost" is unknown`},
		{"type,type\n", `p.csv:1: column "type" is unknown or given twice`},
		{"type\na\n", "p.csv:1: column price is missing"},
		{"type,price\na,0.1\nb,dear\n", `p.csv:3: price is "dear": want a number`},
		{"type,price\na,NaN\n", "p.csv:2: the price of on-demand a is NaN: want 0 to"},
		{"type,price\na,-1\n", "want 0 to"},
		{"type,price\na,+Inf\n", "want 0 to"},
		{"type,price\na,1\na,2\n", "p.csv:3: the price of on-demand a from 0001-01-01T00:00:00Z is given twice"},
		{"type,price,spot\na,1,yes\n", `p.csv:2: spot is "yes": want true or false`},
		{"type,price,from\na,1,yesterday\n", `p.csv:2: from is "yesterday"`},
		{"type,price\na\n", "record on line 2: wrong number of fields"},
		{"type,price\n\"a,1\n", "read prices p.csv:"},
		{"type,price\n\xff,1\n", "it is not UTF-8"},
	}
	for _, test := range tests {
		if err := new(price.Prices).AddTable("p.csv", []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("AddTable(%q) = %v, want %q", test.text, err, test.want)
		}
	}
}

const history = `{"SpotPriceHistory":[
 {"Timestamp":"2026-03-01T13:00:00+00:00","ProductDescription":"Linux/UNIX","InstanceType":"m5.large","SpotPrice":"0.072000","AvailabilityZone":"us-east-1a"},
 {"Timestamp":"2026-03-01T11:00:00Z","ProductDescription":"Linux/UNIX","InstanceType":"m5.large","SpotPrice":"0.036000","AvailabilityZone":"us-east-1a"}],
 "NextToken":""}`

func TestSpotHistory(t *testing.T) {
	windows := strings.Replace(history, `"Linux/UNIX"`, `"Windows"`, 1)
	tests := []struct {
		name, text, product string
		want                price.Money
		err                 string
	}{
		{"in any order", history, "", 108_000_000, ""},
		{"of a product", history, "Linux/UNIX", 108_000_000, ""},
		{"one product of two", windows, "Linux/UNIX", 72_000_000, ""},
		{"two products", windows, "", 0, `spot.json:3: its product is Linux/UNIX, and that of the prices before is Windows: give --product`},
		{"another product", history, "SUSE Linux", 0, `it has no price of product "SUSE Linux"`},
		{"empty", `{"SpotPriceHistory":[]}`, "", 0, "it has no price"},
		{"a part", strings.Replace(history, `"NextToken":""`, `"NextToken":"x"`, 1), "", 0, "it ends before the last page"},
		{"two prices at one time", strings.Replace(history, "11:00:00Z", "13:00:00Z", 1), "", 0, "is given twice, as 0.072 and as 0.036"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p price.Prices
			err := p.AddSpotHistory("spot.json", []byte(test.text), test.product)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("AddSpotHistory = %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.Between(spot, noon, noon.Add(2*time.Hour)); err != nil || got != test.want {
				t.Errorf("two hours cost %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

// A fault in a history is an error, or changes no price.
func TestFaultyHistories(t *testing.T) {
	for _, c := range jsonfault.Cases(history) {
		var p price.Prices
		if p.AddSpotHistory("spot.json", []byte(c.Text), "") != nil {
			continue
		}
		if got, err := p.Between(spot, noon, noon.Add(2*time.Hour)); err != nil || got != 108_000_000 {
			harmless := c.Fault == jsonfault.Long || strings.HasSuffix(c.Path, "SpotPrice") || strings.HasSuffix(c.Path, "Type") || strings.HasSuffix(c.Path, "Zone")
			if !harmless { // another text of a text is another market or price
				t.Errorf("%v: two hours cost %d, %v", c, got, err)
			}
		}
	}
}

func FuzzTables(f *testing.F) {
	f.Add([]byte("type,zone,spot,from,price\nm5.large,a,true,2026-03-01T13:00:00Z,0.1\n"))
	f.Add([]byte(history))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p price.Prices
		if p.AddTable("t", data) != nil && p.AddSpotHistory("h", data, "") != nil {
			return
		}
		for _, m := range []price.Market{demand, spot, {}} {
			if cost, err := p.Between(m, noon, noon.Add(time.Hour)); err == nil && cost < 0 {
				t.Errorf("an hour of %v costs %v", m, cost)
			}
		}
	})
}
