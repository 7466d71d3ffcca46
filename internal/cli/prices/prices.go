// Package prices has the command "weir prices": it writes the file of prices that weir.yaml and scenarios name, from what AWS answers.
//
// The answers come from an account, through package pricelist, or from files in which the AWS CLI has printed them. Package price reads
// both. The command needs no bus and changes nothing at AWS. One goroutine uses it.
package prices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools/aws/pricelist"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// commands are "weir prices".
type commands struct{ *connect.CLI }

type flags struct {
	read            []string
	write           string
	region, product string
	since           time.Duration
}

const (
	linux     = "Linux/UNIX"
	sinceDays = 30 * 24 * time.Hour
	maxInput  = 256 << 20 // bytes of a file
)

// Command returns "weir prices".
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	var f flags
	cmd := &cobra.Command{
		Use:   "prices [TYPE...]",
		Short: "Write the price file of instance types of AWS",
		Long: `Write the price file of instance types of AWS, which prices.table in weir.yaml or in a scenario
names. It is a CSV table with a row for each price of an hour: on demand from the price list, and
at the spot price from the history of the account.

Without --read the command requests the prices from the account and the region of weir.yaml. The
account needs the rights pricing:GetProducts and ec2:DescribeSpotPriceHistory.

With --read it needs no account: each file is the output of "aws pricing get-products --service-code
AmazonEC2" or of "aws ec2 describe-spot-price-history", and - is standard input. Use the account of
the pool: accounts name the zones of a region differently. Without TYPE all types of the files count.

All prices must be of one region and one product. The command names prices of others, of another
account and of the future with their file and line, and times without spot prices on standard error.`,
		Example: `  weir prices m5.large m5.xlarge --write /etc/weir/prices.csv
  weir prices --read list.json --read spot.json --write prices.csv
  aws ec2 describe-spot-price-history --instance-types m5.large | weir prices --read - --product Linux/UNIX`,
		RunE: func(cmd *cobra.Command, args []string) error { return cli.run(cmd.Context(), args, f) },
	}
	cmd.Flags().StringArrayVar(&f.read, "read", nil, "a `FILE` with the output of the AWS CLI, or - for standard input; may be repeated")
	cmd.Flags().StringVar(&f.write, "write", "", "the `FILE` to write (default: standard output)")
	cmd.Flags().StringVar(&f.region, "region", "", "only prices of this region (default: of weir.yaml, or the one of the files)")
	cmd.Flags().StringVar(&f.product, "product", "", "only prices of this product: "+strings.Join(price.Products(), ", ")+" (default: the one of the files, or "+linux+")")
	command.SinceVar(cmd.Flags(), &f.since, "since", sinceDays, "spot prices of the account since then, at most 90 days ago")
	return cmd
}

func (cli *commands) run(ctx context.Context, types []string, f flags) error {
	if _, known := price.System(f.product); f.product != "" && !known {
		return usage.New(fmt.Errorf("--product %q: want one of %s", f.product, strings.Join(price.Products(), ", ")))
	}
	l := price.Lists{Region: f.region, Product: f.product, Types: map[string]bool{}, Now: time.Now()}
	for _, kind := range types {
		l.Types[kind] = true
	}
	err := cli.add(ctx, &l, types, f)
	if err != nil {
		return err
	}
	for _, gap := range l.Gaps() {
		fmt.Fprintf(cli.Stderr, "weir: warning: %s\n", gap)
	}
	if l.Currency != "" && l.Currency != "USD" {
		fmt.Fprintf(cli.Stderr, "weir: the prices are in %s: set prices.currency\n", l.Currency)
	}
	table := l.Table()
	if f.write == "" {
		_, err := cli.Stdout.Write(table)
		return err
	}
	if err := wholefile.Write(f.write, table); err != nil {
		return err
	}
	if err := os.Chmod(f.write, 0o644); err != nil { // daemons of other users read it
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: %d prices\n", f.write, strings.Count(string(table), "\n")-1)
	return nil
}

// add adds the prices of the files or of the account.
func (cli *commands) add(ctx context.Context, l *price.Lists, types []string, f flags) error {
	if len(f.read) == 0 {
		return cli.request(ctx, l, types, f)
	}
	for _, path := range f.read {
		name, data, err := cli.ReadInput(path, maxInput)
		if err == nil {
			err = l.Add(name, data)
		}
		if err != nil {
			return usage.New(err)
		}
	}
	return nil
}

// request adds the prices of the account.
func (cli *commands) request(ctx context.Context, l *price.Lists, types []string, f flags) error {
	if len(types) == 0 {
		return usage.New(errors.New(`weir prices wants instance types, such as m5.large, or --read FILE with the output of the AWS CLI
See "weir prices --help"`))
	}
	service, err := config.LoadService(cli.ConfigDir())
	if err != nil {
		return usage.New(err)
	}
	account := provider.Account{Region: f.region, Endpoint: service.AWS.Endpoint, Keys: awssdk.KeysOf(service.AWS.AccessKeyFile)}
	if f.region == "" {
		account.Region = service.RegionOf(cli.Cluster)
	}
	if f.product == "" {
		l.Product = linux
	}
	answers, err := pricelist.Get(ctx, account, pricelist.Query{Types: types, Product: l.Product, From: l.Now.Add(-f.since), To: l.Now})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if err := l.Add(a.Command, a.Data); err != nil {
			return err
		}
	}
	return nil
}
