package config

import (
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

// Prices are the files with the prices of an hour. Their paths are relative to the folder of the file with the block.
type Prices struct {
	Table       string `yaml:"table"`        // CSV with the columns type, zone, spot, from and price, as "weir prices" writes it
	SpotHistory string `yaml:"spot_history"` // output of "aws ec2 describe-spot-price-history"
	Product     string `yaml:"product"`      // of the spot history; empty: it has one
	Currency    string `yaml:"currency"`     // empty: USD
}

func (p *Prices) problems(d document) Problems {
	if p != nil && p.Table == "" && p.SpotHistory == "" {
		return Problems{d.problem("prices", "want a table or a spot_history")}
	}
	return nil
}

// Below returns the block with the paths of its files, which are relative to a folder. nil stays nil.
func (p *Prices) Below(dir string) *Prices {
	if p == nil {
		return nil
	}
	out := *p
	for _, path := range []*string{&out.Table, &out.SpotHistory} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return &out
}

// Files returns the paths of the files.
func (p *Prices) Files() (paths []string) {
	for _, path := range []string{p.Table, p.SpotHistory} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// PricesOf reads a table of prices, or the files that the weir.yaml of a folder names; nil: it names none.
func PricesOf(dir, table string) (*price.Prices, error) {
	if table != "" {
		return (&Prices{Table: table}).Read()
	}
	service, err := LoadService(dir)
	if err != nil || service.Prices == nil {
		return nil, err
	}
	return service.Prices.Read()
}

// Check reads the files, and returns the times that the spot history lacks.
func (p *Prices) Check() (gaps []string, err error) {
	if p == nil {
		return nil, nil
	}
	prices, err := p.Read()
	if err != nil {
		return nil, err
	}
	return prices.Gaps(), nil
}

// maxPrices bounds the bytes of a file of prices.
const maxPrices = 256 << 20

// Read reads the files.
func (p *Prices) Read() (*price.Prices, error) {
	out := &price.Prices{Currency: firstOf(p.Currency, "USD")}
	for _, one := range []struct {
		path string
		add  func(name string, data []byte) error
	}{
		{p.Table, out.AddTable},
		{p.SpotHistory, func(name string, data []byte) error { return out.AddSpotHistory(name, data, p.Product) }},
	} {
		if one.path == "" {
			continue
		}
		data, err := inputfile.Read(one.path, maxPrices)
		if err == nil {
			err = one.add(one.path, data)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
