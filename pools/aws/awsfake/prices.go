package awsfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pricing is the service of price lists. It exists in few regions, and has the prices of all.
const pricing = "pricing"

var pricingRegions = []string{"us-east-1", "eu-central-1", "ap-south-1"}

func pricingOperations() map[string]operation {
	return map[string]operation{"GetProducts": {do: getProducts, params: []string{"ServiceCode", "FormatVersion", "Filters", "MaxResults", "NextToken"}}}
}

// listed is the price of a vCPU for an hour on demand.
const listed = 0.048

// getProducts returns the products of an instance type that pass the filters: Linux and Windows, shared and dedicated.
func getProducts(r *request) (any, error) {
	var filters []struct{ Type, Field, Value string }
	if err := json.Unmarshal([]byte(r.params["Filters"]), &filters); err != nil || r.params["ServiceCode"] != "AmazonEC2" {
		return nil, refuse("InvalidParameterException", "Input Parameters are invalid.")
	}
	kind := ""
	for _, f := range filters {
		if f.Field == "instanceType" {
			kind = f.Value
		}
	}
	found := []string{}
	for _, system := range []string{"Linux", "Windows"} {
		for _, tenancy := range []string{"Shared", "Dedicated"} {
			attributes := map[string]string{
				"instanceType": kind, "regionCode": r.config.Region, "operatingSystem": system, "tenancy": tenancy, "capacitystatus": "Used",
				"preInstalledSw": "NA", "licenseModel": "No License required",
			}
			passes := kind != "" && !strings.HasPrefix(kind, "none.")
			for _, f := range filters {
				passes = passes && f.Type == "TERM_MATCH" && attributes[f.Field] == f.Value
			}
			hour := listed * float64(vcpus(kind))
			if system == "Windows" {
				hour *= 2
			}
			if passes {
				found = append(found, productJSON(attributes, hour))
			}
		}
	}
	part, next, err := page(found, r.pageSize(100), r.params["NextToken"])
	return map[string]any{"FormatVersion": "aws_v1", "PriceList": part, "NextToken": next}, err
}

func productJSON(attributes map[string]string, hour float64) string {
	text, _ := json.Marshal(map[string]any{
		"product": map[string]any{"productFamily": "Compute Instance", "attributes": attributes, "sku": "SKU"}, "serviceCode": "AmazonEC2",
		"terms": map[string]any{"OnDemand": map[string]any{"SKU.J": map[string]any{
			"effectiveDate":   "2024-01-01T00:00:00Z",
			"priceDimensions": map[string]any{"SKU.J.6": map[string]any{"unit": "Hrs", "pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", hour)}}},
		}}},
	})
	return string(text)
}

// spotPeriod is the time between two prices of a spot market.
const spotPeriod = 6 * time.Hour

// describeSpotPrices returns a price of each type, product and zone for each period of the time, the newest first: a third of the
// price on demand, and a tenth more in each second period.
func describeSpotPrices(r *request) (any, error) {
	start, err := time.Parse(time.RFC3339, r.params["StartTime"])
	end, err2 := time.Parse(time.RFC3339, r.params["EndTime"])
	if err != nil || err2 != nil {
		return nil, refuse("InvalidParameterValue", "Value ( %s ) for parameter startTime is invalid.", r.params["StartTime"])
	}
	var found []spotPriceAnswer
	for _, kind := range r.params.list("InstanceType") {
		for _, product := range r.params.list("ProductDescription") {
			for i, zone := range []string{"a", "b", "c"} {
				for at := start.Truncate(spotPeriod); !at.After(end) && !strings.HasPrefix(kind, "none."); at = at.Add(spotPeriod) {
					hour := listed / 3 * float64(vcpus(kind))
					if (at.Unix()/int64(spotPeriod.Seconds())+int64(i))%2 == 1 {
						hour *= 1.1
					}
					found = append(found, spotPriceAnswer{
						r.config.Region + zone, fmt.Sprintf("zone-az%d", i+1), kind, product, fmt.Sprintf("%.6f", hour), timestamp(at),
					})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(x, y spotPriceAnswer) int { return strings.Compare(y.At, x.At) })
	part, next, err := computePage(r, found, 1)
	return spotPricesAnswer{part, next}, err
}

type spotPricesAnswer struct {
	Prices    []spotPriceAnswer `xml:"spotPriceHistorySet>item"`
	NextToken string            `xml:"nextToken"`
}

type spotPriceAnswer struct {
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	At      string `xml:"timestamp"`
}
