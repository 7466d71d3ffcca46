// Package price computes the bill of machines, from prices by market that change over time and the rules of a bill.
//
//	var p price.Prices
//	err := p.AddTable("prices.csv", table)
//	err = p.AddSpotHistory("spot.json", history, "Linux/UNIX")
//	cost, err := billing.Charge(&p, price.Market{Type: "m5.large", Zone: "us-east-1a", Spot: true}, price.Use{From: from, To: to})
//
// A market without a price is an error, never 0. Money is a whole number, so that sums do not depend on their order. Prices may be
// read concurrently, and changed only before that. The package has no list of prices of its own: prices of a region and a date are
// the operator's input.
package price
