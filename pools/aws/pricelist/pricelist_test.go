package pricelist_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/aws/pricelist"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

func accountOf(s *awsfake.Server) provider.Account {
	return provider.Account{
		Region: s.Region(), Endpoint: func(string) string { return s.URL() },
		Keys: func() (access, secret string, err error) { return "AKIATEST", "secret", nil },
	}
}

// The prices of an account are those of its region and product, from all pages.
func TestPricesOfAnAccount(t *testing.T) {
	server := awstest.New(t, awsfake.Config{Region: "eu-west-1", PageSize: 2})
	now := server.Now()
	q := pricelist.Query{Types: []string{"m5.large", "m5.xlarge"}, Product: "Linux/UNIX", From: now.Add(-24 * time.Hour), To: now}
	answers, err := pricelist.Get(t.Context(), accountOf(server), q)
	if err != nil {
		t.Fatal(err)
	}
	l := price.Lists{Region: "eu-west-1", Product: "Linux/UNIX", Now: now}
	for _, a := range answers {
		if err := l.Add(a.Command, a.Data); err != nil {
			t.Fatal(err)
		}
	}
	for market, want := range map[price.Market]price.Money{
		{Type: "m5.large", Zone: "eu-west-1a"}:              96_000_000,
		{Type: "m5.xlarge", Zone: "eu-west-1b"}:             192_000_000,
		{Type: "m5.large", Zone: "eu-west-1a", Spot: true}:  32_000_000,
		{Type: "m5.xlarge", Zone: "eu-west-1b", Spot: true}: 70_400_000,
	} {
		if got, err := l.At(market, now); err != nil || got != want {
			t.Errorf("an hour of %s costs %d, %v, want %d", market, got, err, want)
		}
	}
	if rows := strings.Count(string(l.Table()), "\n"); rows != 1+2+2*3*5 {
		t.Errorf("the table has %d rows:\n%s", rows, l.Table())
	}
}

// An error names the request, its cause, and the right or what else to do.
func TestRefusedPrices(t *testing.T) {
	for _, test := range []struct {
		name, kind, product, deny string
		want                      []string
	}{
		{"no right to the list", "m5.large", "Linux/UNIX", "GetProducts", []string{"request the price list: ", "; allow the action pricing:GetProducts"}},
		{"no right to the history", "m5.large", "Linux/UNIX", "DescribeSpotPriceHistory", []string{"request the history of spot prices: ", "; allow the action ec2:DescribeSpotPriceHistory"}},
		{"no such type", "none.large", "Linux/UNIX", "", []string{`no price of instance type "none.large" for Linux/UNIX in us-west-2: check the type`}},
		{"no such product", "m5.large", "Plan 9", "", []string{`product "Plan 9" has no price list that weir reads: choose Linux/UNIX, `}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := awstest.New(t, awsfake.Config{})
			if test.deny != "" {
				server.Deny(test.deny, "")
			}
			q := pricelist.Query{Types: []string{test.kind}, Product: test.product, From: server.Now().Add(-time.Hour), To: server.Now()}
			_, err := pricelist.Get(t.Context(), accountOf(server), q)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Get = %v, want %q", err, want)
				}
			}
		})
	}
}
