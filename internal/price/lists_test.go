package price_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

// item is an element of a price list, as AWS returns it.
func item(instanceType, region, system, tenancy, currency, hour string) string {
	return fmt.Sprintf(`{"product":{"productFamily":"Compute Instance","attributes":{"instanceType":%q,"regionCode":%q,"operatingSystem":%q,"tenancy":%q,
"capacitystatus":"Used","preInstalledSw":"NA","licenseModel":"No License required"},"sku":"X"},"serviceCode":"AmazonEC2",
"terms":{"OnDemand":{"X.J":{"priceDimensions":{"X.J.6":{"unit":"Hrs","pricePerUnit":{%q:%q}}},"effectiveDate":"2026-02-01T00:00:00Z"}}}}`,
		instanceType, region, system, tenancy, currency, hour)
}

// list is the output of "aws pricing get-products", a line for each item.
func list(items ...string) string {
	texts := make([]string, len(items))
	for i, text := range items {
		quoted, _ := json.Marshal(text)
		texts[i] = string(quoted)
	}
	return "{\n\"PriceList\": [\n" + strings.Join(texts, ",\n") + "\n],\n\"FormatVersion\": \"aws_v1\"}"
}

// spotLine is a line of a spot history.
func spotLine(zone, id, at, hour string) string {
	return fmt.Sprintf(`{"AvailabilityZone":%q,"AvailabilityZoneId":%q,"InstanceType":"m5.large","ProductDescription":"Linux/UNIX","SpotPrice":%q,"Timestamp":%q}`, zone, id, hour, at)
}

func spotHistory(lines ...string) string {
	return "{\"SpotPriceHistory\": [\n" + strings.Join(lines, ",\n") + "\n]}"
}

// The table of a price list and a history has the prices of both, and reads back as it is.
func TestTableOfLists(t *testing.T) {
	l := price.Lists{Now: noon}
	linux := item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.0960000000")
	dedicated := item("m5.large", "us-east-1", "Linux", "Dedicated", "USD", "0.1060000000")
	if err := l.Add("list.json", []byte(list(dedicated, linux))); err != nil {
		t.Fatal(err)
	}
	if err := l.Add("spot.json", []byte(spotHistory(
		spotLine("us-east-1a", "use1-az1", "2026-02-20T00:00:00+00:00", "0.036000"), spotLine("us-east-1a", "use1-az1", "2026-02-10T00:00:00Z", "0.036000"),
		spotLine("us-east-1b", "use1-az2", "2026-02-20T00:00:00Z", "0.040000"), spotLine("us-east-1a", "use1-az1", "2026-02-21T00:00:00Z", "0.038"),
	))); err != nil {
		t.Fatal(err)
	}
	const want = `type,zone,spot,from,price
m5.large,,false,2026-02-01T00:00:00Z,0.096
m5.large,us-east-1a,true,2026-02-10T00:00:00Z,0.036
m5.large,us-east-1a,true,2026-02-21T00:00:00Z,0.038
m5.large,us-east-1b,true,2026-02-20T00:00:00Z,0.04
`
	if got := string(l.Table()); got != want || l.Currency != "USD" {
		t.Errorf("the table in %s is\n%s\nwant\n%s", l.Currency, got, want)
	}
	if gaps := l.Gaps(); len(gaps) != 1 || !strings.HasPrefix(gaps[0], "spot m5.large in us-east-1a has no price from 2026-02-10T00:00:00Z to 2026-02-20T00:00:00Z (10 days)") {
		t.Errorf("gaps: %q", gaps)
	}
	var again price.Prices
	if err := again.AddTable("prices.csv", []byte(want)); err != nil || string(again.Table()) != want {
		t.Errorf("the table reads back as %v\n%s", err, again.Table())
	}
}

// A market without a price is named with the files that were read, and gaps of a history are named beside a table.
func TestMissingPrices(t *testing.T) {
	var p price.Prices
	spot := price.Market{Type: "m5.large", Zone: "us-east-1b", Spot: true}
	if err := p.Has(spot); err == nil || err.Error() != `no price of spot m5.large in us-east-1b: add it to the table of prices, by hand or with "weir prices"` {
		t.Errorf("Has = %v", err)
	}
	if err := p.AddTable("prices.csv", []byte("spot,from,price\ntrue,2026-01-01T00:00:00Z,1\nfalse,,1\n")); err != nil || p.Gaps() != nil {
		t.Fatalf("%v; gaps of a table: %q", err, p.Gaps())
	}
	if err := p.Has(spot); err != nil {
		t.Error(err)
	}
	p = price.Prices{}
	if err := p.AddTable("prices.csv", []byte("type,price\nm5.large,1\n")); err != nil {
		t.Fatal(err)
	}
	first, second := spotLine("us-east-1a", "", "2026-02-01T00:00:00Z", "0.036"), spotLine("us-east-1a", "", "2026-02-20T00:00:00Z", "0.036")
	if err := p.AddSpotHistory("spot.json", []byte(spotHistory(second, first)), ""); err != nil {
		t.Fatal(err)
	}
	if err := p.Has(spot); err == nil || !strings.Contains(err.Error(), "add it to prices.csv or spot.json, by hand") {
		t.Errorf("Has = %v", err)
	}
	if gaps := p.Gaps(); len(gaps) != 1 || !strings.Contains(gaps[0], "from 2026-02-01T00:00:00Z to 2026-02-20T00:00:00Z (19 days)") {
		t.Errorf("gaps: %q", gaps)
	}
}

// Prices of another region, account, product or currency, and of the future, are errors with the line and what to do.
func TestMixedLists(t *testing.T) {
	linux := item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.096")
	spot := spotLine("us-east-1a", "use1-az1", "2026-02-20T00:00:00Z", "0.036")
	tests := []struct {
		name  string
		of    price.Lists
		files []string
		want  string
	}{
		{"regions of a list", price.Lists{}, []string{list(linux, item("m5.large", "eu-west-1", "Linux", "Shared", "USD", "0.1"))},
			"f0:4: its region is eu-west-1, and that of the prices before is us-east-1: give --region"},
		{"one region of a list", price.Lists{Region: "us-east-1"}, []string{list(linux, item("m5.large", "eu-west-1", "Linux", "Shared", "USD", "0.1"))}, ""},
		{"no price of the region", price.Lists{Region: "eu-west-1"}, []string{list(linux)}, "f0: it has no price in eu-west-1: name another"},
		{"regions of files", price.Lists{}, []string{list(linux), spotHistory(spotLine("eu-west-1a", "", "2026-02-20T00:00:00Z", "1"))}, "f1:2: its region is eu-west-1"},
		{"the wrong region", price.Lists{Region: "eu-west-1"}, []string{spotHistory(spot)}, "f0:2: its region is us-east-1: want eu-west-1: leave it out, or give --region us-east-1"},
		{"accounts", price.Lists{}, []string{spotHistory(spot, spotLine("us-east-1a", "use1-az4", "2026-02-21T00:00:00Z", "0.036"))},
			"f0:3: zone us-east-1a is use1-az4, and it is use1-az1 in the prices before, so they are of two accounts"},
		{"products", price.Lists{}, []string{list(linux, item("m5.large", "us-east-1", "Windows", "Shared", "USD", "0.188"))}, "f0:4: its product is Windows, and that of the prices before is Linux/UNIX: give --product"},
		{"one product", price.Lists{Product: "Linux/UNIX"}, []string{list(linux, item("m5.large", "us-east-1", "Windows", "Shared", "USD", "0.188")), spotHistory(spot)}, ""},
		{"types", price.Lists{Types: map[string]bool{"c5.large": true}, Product: "Linux/UNIX"}, []string{list(linux)}, `f0: it has no price of product "Linux/UNIX" of type c5.large: name another`},
		{"currencies", price.Lists{}, []string{list(linux, item("c5.large", "us-east-1", "Linux", "Shared", "CNY", "0.7"))}, "f0:4: the price of c5.large: its currency is CNY"},
		{"the future", price.Lists{Now: noon}, []string{spotHistory(spot, spotLine("us-east-1a", "use1-az1", "2026-03-02T00:00:00Z", "0.036"))},
			"f0:3: its time is 2026-03-02T00:00:00Z, and now is 2026-03-01T12:00:00Z: set the clock of this machine"},
		{"two prices", price.Lists{}, []string{list(linux), list(item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.097"))}, "f1:3: the price of on-demand m5.large from 2026-02-01T00:00:00Z is given twice"},
		{"no price", price.Lists{}, []string{list(item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.0000000000"))}, "f0:3: the price of m5.large: it has 1 prices on demand, the last is 0: want one above 0"},
		{"a text", price.Lists{}, []string{list(item("m5.large", "us-east-1", "Linux", "Shared", "USD", "dear"))}, "f0:3: the price of m5.large: want one number"},
		{"no JSON in the list", price.Lists{}, []string{list(linux, "x")}, "f0:4: "},
		{"two answers", price.Lists{}, []string{`{"PriceList":["{}"],"SpotPriceHistory":[{}]}`}, "want one answer in a file"},
		{"empty", price.Lists{}, []string{`{"PriceList":[]}`}, "it has no price"},
		{"a page", price.Lists{}, []string{`{"PriceList":["{}"],"NextToken":"x"}`}, "it ends before the last page"},
		{"another output", price.Lists{}, []string{`[]`}, "read prices f0: want an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var err error
			for i, text := range test.files {
				if err = test.of.Add(fmt.Sprint("f", i), []byte(text)); err != nil {
					break
				}
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Add = %v\nwant %s", err, test.want)
			}
		})
	}
}

// A fault in a price list is an error, or changes no price.
func TestFaultyPriceLists(t *testing.T) {
	text := item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.096")
	for _, c := range jsonfault.Cases(text) {
		var l price.Lists
		if l.Add("list.json", []byte(list(c.Text))) != nil {
			continue
		}
		got, err := l.At(price.Market{Type: "m5.large"}, noon)
		harmless := c.Fault == jsonfault.Long || strings.HasSuffix(c.Path, "instanceType") // another text is another type
		if (err != nil || got != 96_000_000) && !harmless {
			t.Errorf("%v: an hour costs %d, %v", c, got, err)
		}
	}
}

func FuzzLists(f *testing.F) {
	f.Add([]byte(list(item("m5.large", "us-east-1", "Linux", "Shared", "USD", "0.096"))))
	f.Add([]byte(spotHistory(spotLine("us-east-1a", "use1-az1", "2026-02-20T00:00:00Z", "0.036"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l price.Lists
		if l.Add("f", data) != nil {
			return
		}
		var again price.Prices
		if err := again.AddTable("table", l.Table()); err != nil {
			t.Errorf("the table of the prices is not read: %v\n%s", err, l.Table())
		}
		_ = l.Gaps()
	})
}

// Prices that are too old or too late for the time of their use are named, those of spot machines only. A price without a time is never old.
func TestAgedPrices(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	var p price.Prices
	if err := p.AddTable("p.csv", []byte("type,zone,spot,from,price\nm5,a,true,2026-03-02T00:00:00Z,1\nm5,b,true,2026-03-05T00:00:00Z,1\nm5,,false,2026-03-01T00:00:00Z,2\nc5,,true,,1\n")); err != nil {
		t.Fatal(err)
	}
	spot, demand, always := price.Market{Type: "m5", Zone: "a", Spot: true}, price.Market{Type: "m5", Zone: "a"}, price.Market{Type: "c5", Spot: true}
	for _, test := range []struct {
		name     string
		markets  []price.Market
		from, to time.Time
		want     string
	}{
		{"in time", []price.Market{spot}, day(2), day(12), ""},
		{"too late", []price.Market{spot, always}, day(1), day(12), "the first price of spot m5 in a is of 2026-03-02T00:00:00Z, and it counts before that too: add the prices since 2026-03-01T00:00:00Z"},
		{"too old", []price.Market{spot}, day(14), day(14), `the newest spot price of p.csv is of 2026-03-05T00:00:00Z, 9 days before 2026-03-14T00:00:00Z: get the prices again, for example with "weir prices"`},
		{"on demand", []price.Market{demand, {Type: "x", Spot: true}}, day(1).AddDate(-1, 0, 0), day(1).AddDate(1, 0, 0), ""},
	} {
		if got := strings.Join(p.Aged(test.markets, test.from, test.to), "\n"); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}
