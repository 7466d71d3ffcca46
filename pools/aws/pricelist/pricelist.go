// Package pricelist requests prices of instance types from AWS: the price list, and the history of spot prices of an account.
//
//	answers, err := pricelist.Get(ctx, account, pricelist.Query{Types: types, Product: "Linux/UNIX", From: from, To: now})
//
// The answers are as the AWS CLI prints them, so that price.Lists reads those of both. Nothing is changed. The account needs the rights
// pricing:GetProducts and ec2:DescribeSpotPriceHistory. Get may be called concurrently.
package pricelist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// Query selects prices.
type Query struct {
	Types    []string  // instance types
	Product  string    // of spot histories, such as Linux/UNIX
	From, To time.Time // of the spot history; AWS has about 90 days
}

// Answer is the output of a command of the AWS CLI.
type Answer struct {
	Command string // such as "aws pricing get-products"
	Data    []byte
}

const (
	maxPages    = 1000
	spotPage    = 1000
	callTimeout = time.Minute // one attempt
)

// Get requests the prices.
func Get(ctx context.Context, account provider.Account, q Query) ([]Answer, error) {
	cfg, err := awssdk.Load(ctx, awssdk.Config{Region: account.Region, Endpoint: account.Endpoint("ec2"), Keys: account.Keys},
		awssdk.HTTPClient().WithTimeout(callTimeout), func() aws.Retryer { return retry.NewStandard() })
	if err != nil {
		return nil, err
	}
	cfg.HTTPClient = awssdk.Bounded{Client: cfg.HTTPClient}
	list, err := products(ctx, cfg, account.Endpoint("pricing"), q)
	if err != nil {
		return nil, awssdk.Explain("request the price list", "pricing:GetProducts", err)
	}
	history, err := spotPrices(ctx, cfg, account.Endpoint("ec2"), q)
	if err != nil {
		return nil, awssdk.Explain("request the history of spot prices", "ec2:DescribeSpotPriceHistory", err)
	}
	return append(list, history), nil
}

// regionOfList returns the region of the price list service that is nearest to a region: three regions have all prices.
func regionOfList(region string) string {
	area, _, _ := strings.Cut(region, "-")
	switch area {
	case "cn":
		return "cn-northwest-1"
	case "eu", "me", "af", "il":
		return "eu-central-1"
	case "ap":
		return "ap-south-1"
	}
	return "us-east-1"
}

func products(ctx context.Context, cfg aws.Config, endpoint string, q Query) (answers []Answer, err error) {
	system, ok := price.System(q.Product)
	if !ok {
		return nil, fmt.Errorf("product %q has no price list that weir reads: choose %s", q.Product, strings.Join(price.Products(), ", "))
	}
	client := pricing.NewFromConfig(cfg, func(o *pricing.Options) {
		o.Region = regionOfList(cfg.Region)
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	for _, kind := range q.Types {
		var filters []types.Filter
		for _, f := range [][2]string{{"instanceType", kind}, {"regionCode", cfg.Region}, {"operatingSystem", system}, {"tenancy", "Shared"}, {"capacitystatus", "Used"}, {"preInstalledSw", "NA"}} {
			filters = append(filters, types.Filter{Type: types.FilterTypeTermMatch, Field: &f[0], Value: &f[1]})
		}
		var all []string
		err := pages(func(token *string) (*string, error) {
			out, err := client.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), Filters: filters, NextToken: token})
			if err != nil {
				return nil, err
			}
			all = append(all, out.PriceList...)
			return out.NextToken, nil
		})
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("AWS has no price of instance type %q for %s in %s: check the type, the product and the region", kind, q.Product, cfg.Region)
		}
		data, err := json.Marshal(map[string][]string{"PriceList": all})
		if err != nil {
			return nil, err
		}
		answers = append(answers, Answer{"aws pricing get-products of " + kind, data})
	}
	return answers, nil
}

// spotPrice is an element of the output of "aws ec2 describe-spot-price-history".
type spotPrice struct {
	AvailabilityZone   string
	AvailabilityZoneID string `json:"AvailabilityZoneId,omitempty"`
	InstanceType       string
	ProductDescription string
	SpotPrice          string
	Timestamp          time.Time
}

func spotPrices(ctx context.Context, cfg aws.Config, endpoint string, q Query) (Answer, error) {
	client := ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	kinds := make([]ec2types.InstanceType, len(q.Types))
	for i, kind := range q.Types {
		kinds[i] = ec2types.InstanceType(kind)
	}
	all := []spotPrice{}
	err := pages(func(token *string) (*string, error) {
		out, err := client.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
			InstanceTypes: kinds, ProductDescriptions: []string{q.Product}, StartTime: &q.From, EndTime: &q.To, MaxResults: aws.Int32(spotPage), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, p := range out.SpotPriceHistory {
			all = append(all, spotPrice{aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId), string(p.InstanceType),
				string(p.ProductDescription), aws.ToString(p.SpotPrice), aws.ToTime(p.Timestamp)})
		}
		return out.NextToken, nil
	})
	if err != nil {
		return Answer{}, err
	}
	data, err := json.MarshalIndent(map[string][]spotPrice{"SpotPriceHistory": slices.Clip(all)}, "", " ")
	return Answer{"aws ec2 describe-spot-price-history", data}, err
}

// pages sends a request for each page. get returns the token of the next page.
func pages(get func(token *string) (*string, error)) error {
	var token *string
	for range maxPages {
		next, err := get(token)
		if err != nil || aws.ToString(next) == "" {
			return err
		}
		if aws.ToString(token) == *next {
			return errors.New("AWS returned a page that names itself as the next one")
		}
		token = next
	}
	return errors.New("AWS returned too many pages")
}
