package price

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// Lists reads the answers of AWS, as the AWS CLI prints them, into Prices: price lists and spot histories of one region, one account
// and one product. The zero Lists takes these from the first file. It has one owner.
type Lists struct {
	Prices
	Region  string          // such as us-east-1
	Product string          // such as Linux/UNIX, as spot histories name it
	Types   map[string]bool // only these instance types; empty: all
	Now     time.Time       // later spot prices are a mistake; zero: no limit

	product, region string            // of the first price
	zones           map[string]string // id by name, which differs between accounts
}

// answer is the output of "aws pricing get-products" or of "aws ec2 describe-spot-price-history".
type answer struct {
	SpotPriceHistory []spotPrice `json:"SpotPriceHistory"`
	PriceList        []string    `json:"PriceList"`
	NextToken        string      `json:"NextToken"`
}

type spotPrice struct {
	Timestamp          time.Time `json:"Timestamp"`
	ProductDescription string    `json:"ProductDescription"`
	InstanceType       string    `json:"InstanceType"`
	SpotPrice          string    `json:"SpotPrice"`
	AvailabilityZone   string    `json:"AvailabilityZone"`
	AvailabilityZoneID string    `json:"AvailabilityZoneId"`
}

// AddSpotHistory adds the prices of a product in the output of "aws ec2 describe-spot-price-history", in any order. If product is
// empty, the history must have one product. The names of zones must be of the account that the prices are for: accounts name them
// differently.
func (p *Prices) AddSpotHistory(name string, data []byte, product string) error {
	l := Lists{Prices: *p, Product: product}
	err := l.Add(name, data)
	*p = l.Prices
	return err
}

// Add adds a price list or a spot history. Prices of other products than Product, and of other types than Types, do not count. The
// errors name the file and the line.
func (l *Lists) Add(name string, data []byte) error {
	var a answer
	field, err := strictjson.Lenient(data, &a)
	if err = errors.Join(err, field); err != nil {
		return fmt.Errorf("read prices %s: %w", name, err)
	}
	key, n, add := "SpotPriceHistory", len(a.SpotPriceHistory), func(i int) (bool, error) { return l.addSpot(a.SpotPriceHistory[i]) }
	if len(a.PriceList) > 0 {
		key, n, add = "PriceList", len(a.PriceList), func(i int) (bool, error) { return l.addProduct(a.PriceList[i]) }
	}
	switch {
	case len(a.PriceList) > 0 && len(a.SpotPriceHistory) > 0:
		return fmt.Errorf("read prices %s: it has a PriceList and a SpotPriceHistory: want one answer in a file", name)
	case a.NextToken != "":
		return fmt.Errorf("read prices %s: it ends before the last page: run the AWS CLI without --max-items and --no-paginate", name)
	}
	found := false
	for i := range n {
		counts, err := add(i)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, lineOf(data, key, i), err)
		}
		found = found || counts
	}
	l.files = append(l.files, name)
	if !found {
		return fmt.Errorf("read prices %s: it has no price%s: name another product, type or region, or get the prices again", name, l.selected())
	}
	return nil
}

// selected returns which prices count: " of product X of type Y in Z".
func (l *Lists) selected() (text string) {
	if l.Product != "" {
		text = fmt.Sprintf(" of product %q", l.Product)
	}
	if len(l.Types) > 0 {
		text += " of type " + strings.Join(slices.Sorted(maps.Keys(l.Types)), ", ")
	}
	if l.Region != "" {
		text += " in " + l.Region
	}
	return text
}

// lineOf returns the line of an element of a list in an object.
func lineOf(data []byte, key string, element int) int {
	d := json.NewDecoder(bytes.NewReader(data))
	var skipped json.RawMessage
	for at, err := d.Token(); err == nil && at != key; at, err = d.Token() { // the keys of the object
		if _, isKey := at.(string); isKey && d.Decode(&skipped) != nil {
			break
		}
	}
	if _, err := d.Token(); err != nil {
		return 0
	}
	for range element {
		if d.Decode(&skipped) != nil {
			return 0
		}
	}
	d.More() // reads up to the element
	before := data[:min(int(d.InputOffset()), len(data))]
	rest := data[len(before):]
	between := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,"))
	return 1 + bytes.Count(before, []byte("\n")) + bytes.Count(rest[:between], []byte("\n"))
}

// the checks that all prices have one value: that of the first one.
func the(what, flag string, first *string, found string) error {
	if *first = cmp.Or(*first, found); *first != found {
		return fmt.Errorf("its %s is %s, and that of the prices before is %s: give %s, or leave out one of them", what, found, *first, flag)
	}
	return nil
}

// addSpot adds a spot price. It reports whether the price counts.
func (l *Lists) addSpot(p spotPrice) (counts bool, err error) {
	switch {
	case p.InstanceType == "" || p.AvailabilityZone == "" || p.Timestamp.IsZero() || p.ProductDescription == "":
		return false, errors.New("InstanceType, AvailabilityZone, ProductDescription or Timestamp is missing")
	case l.Product != "" && p.ProductDescription != l.Product || !l.wants(p.InstanceType):
		return false, nil
	case !l.Now.IsZero() && p.Timestamp.After(l.Now):
		return false, fmt.Errorf("its time is %s, and now is %s: set the clock of this machine, or get the history again", p.Timestamp.Format(time.RFC3339), l.Now.UTC().Format(time.RFC3339))
	}
	price, err := strconv.ParseFloat(p.SpotPrice, 64)
	if err != nil {
		return false, fmt.Errorf("SpotPrice is %q: want a number", p.SpotPrice)
	}
	region := regionOf(p.AvailabilityZone)
	if l.Region != "" && region != l.Region {
		return false, fmt.Errorf("its region is %s: want %s: leave it out, or give --region %[1]s", region, l.Region)
	}
	return true, errors.Join(the("product", "--product, or the key product of a block prices", &l.product, p.ProductDescription), the("region", "--region", &l.region, region),
		l.ofAccount(p.AvailabilityZone, p.AvailabilityZoneID), l.setSpot(Market{Type: p.InstanceType, Zone: p.AvailabilityZone, Spot: true}, p.Timestamp, price))
}

func (l *Lists) setSpot(m Market, from time.Time, price float64) error {
	if l.history == nil {
		l.history = map[Market][]time.Time{}
	}
	l.history[m] = append(l.history[m], from)
	return l.Set(m, from, price)
}

func (l *Lists) wants(instanceType string) bool { return len(l.Types) == 0 || l.Types[instanceType] }

// regionOf returns the region of a zone: us-east-1 of us-east-1a and us-east-1-bos-1a.
func regionOf(zone string) string {
	if i := strings.IndexAny(zone, "0123456789"); i >= 0 {
		return zone[:i+1]
	}
	return zone
}

// ofAccount checks that a zone has the id that it had before. Each account names the zones of a region in an order of its own.
func (l *Lists) ofAccount(zone, id string) error {
	if before := l.zones[zone]; id != "" && before != "" && before != id {
		return fmt.Errorf("zone %s is %s, and it is %s in the prices before, so they are of two accounts: get all histories with the account of the pool", zone, id, before)
	}
	if l.zones == nil {
		l.zones = map[string]string{}
	}
	if id != "" {
		l.zones[zone] = id
	}
	return nil
}

// product is an element of a price list: JSON in a text.
type product struct {
	Product struct {
		Family     string `json:"productFamily"`
		Attributes struct {
			Type     string `json:"instanceType"`
			Region   string `json:"regionCode"`
			System   string `json:"operatingSystem"`
			Software string `json:"preInstalledSw"`
			Tenancy  string `json:"tenancy"`
			Capacity string `json:"capacitystatus"`
			License  string `json:"licenseModel"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			Effective  time.Time `json:"effectiveDate"`
			Dimensions map[string]struct {
				Unit    string            `json:"unit"`
				PerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// systems has the operating systems of price lists by the products of spot histories.
var systems = map[string]string{"Linux/UNIX": "Linux", "SUSE Linux": "SUSE", "Red Hat Enterprise Linux": "RHEL", "Windows": "Windows"}

// System returns the operating system in price lists of a product of spot histories; false: price lists are not read for it.
func System(product string) (system string, ok bool) {
	system, ok = systems[product]
	return system, ok
}

// Products returns the products of System, in order.
func Products() []string { return slices.Sorted(maps.Keys(systems)) }

// addProduct adds the price of an instance type on demand. It reports whether the price counts.
func (l *Lists) addProduct(text string) (counts bool, err error) {
	var p product
	field, err := strictjson.Lenient([]byte(text), &p)
	if err = errors.Join(err, field); err != nil {
		return false, err
	}
	a := p.Product.Attributes
	shared := a.Tenancy == "Shared" && a.Capacity == "Used" && a.Software == "NA" && a.License != "Bring your own license"
	of := ""
	for name, system := range systems {
		if system == a.System {
			of = name
		}
	}
	switch {
	case a.Type == "" || !shared || of == "" || !l.wants(a.Type): // a dedicated machine, other software, or no machine
		return false, nil
	case l.Product != "" && of != l.Product || l.Region != "" && a.Region != l.Region:
		return false, nil
	}
	from, price, err := l.onDemand(p)
	if err != nil {
		return false, fmt.Errorf("the price of %s: %w", a.Type, err)
	}
	return true, errors.Join(the("product", "--product, or the key product of a block prices", &l.product, of), the("region", "--region", &l.region, a.Region), l.Set(Market{Type: a.Type}, from, price))
}

// onDemand returns the price of an hour on demand, and from when it counts.
func (l *Lists) onDemand(p product) (from time.Time, price float64, err error) {
	found := 0
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.Dimensions {
			currency := ""
			if len(d.PerUnit) == 1 && d.Unit == "Hrs" {
				currency = slices.Collect(maps.Keys(d.PerUnit))[0]
			}
			if price, err = strconv.ParseFloat(d.PerUnit[currency], 64); err != nil {
				return from, 0, errors.New("want one number in one currency for the unit Hrs")
			}
			if err := the("currency", "price lists of one currency", &l.Currency, currency); err != nil {
				return from, 0, err
			}
			from, found = term.Effective, found+1
		}
	}
	if found != 1 || price == 0 {
		return from, 0, fmt.Errorf("it has %d prices on demand, the last is %v: want one above 0", found, price)
	}
	return from, price, nil
}

// longestGap is the time without a new price after which a history counts as incomplete. AWS lists a price that does not change again
// each day.
const longestGap = 7 * 24 * time.Hour

// Gaps returns a line for each time in which a market of the spot histories has no new price, so that a history may be missing.
func (p *Prices) Gaps() (lines []string) {
	for _, m := range p.markets() {
		times := slices.SortedFunc(slices.Values(p.history[m]), time.Time.Compare)
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap > longestGap {
				lines = append(lines, fmt.Sprintf("%s has no price from %s to %s (%d days), so the price before counts: add the history of this time",
					m, times[i-1].UTC().Format(time.RFC3339), times[i].UTC().Format(time.RFC3339), int(gap.Hours()/24)))
			}
		}
	}
	return lines
}

// Aged returns a line for each of these spot markets whose first price is later than from, when it is first used. It also returns a line
// if all spot prices are old at the last use: the price of one market may stay, but not those of all.
func (p *Prices) Aged(markets []Market, from, to time.Time) (lines []string) {
	used := false
	for _, m := range markets {
		all, err := p.of(m)
		if err != nil || !m.Spot {
			continue
		}
		used = true
		if first := all[0].from; first.After(from) {
			lines = append(lines, fmt.Sprintf("the first price of %s is of %s, and it counts before that too: add the prices since %s", m, first.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339)))
		}
	}
	var newest time.Time
	for m, all := range p.changes {
		if last := all[len(all)-1].from; m.Spot && last.After(newest) {
			newest = last
		}
	}
	if age := to.Sub(newest); used && !newest.IsZero() && age > longestGap {
		lines = append(lines, fmt.Sprintf("the newest spot price of %s is of %s, %d days before %s: get the prices again, for example with \"weir prices\"",
			cmp.Or(strings.Join(p.files, " and "), "the prices"), newest.UTC().Format(time.RFC3339), int(age.Hours()/24), to.UTC().Format(time.RFC3339)))
	}
	return lines
}
