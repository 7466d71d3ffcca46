package harmonizerd

import (
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// maxPassword bounds the file of a password, in bytes.
const maxPassword = 4 << 10

// cloudFoundry returns what the harmonizer does in place of Cloud Foundry's health manager, and the source of its
// expected state, which is nil without a bulk API. The component is nil if collectors cannot reach the harmonizer.
func (p Parts) cloudFoundry(component *cloudfoundry.Component) (cloudfoundry.Features, harmonizer.Source, error) {
	f := cloudfoundry.Features{
		Partition: p.File.Partition, FilterPartition: p.Loop.Apps.Partition != "", Dialect: cloudfoundry.Dialect(p.File.Dialect),
		LegacyDEAs: p.File.LegacyDEAs, Requests: true, Component: component,
	}
	if p.Loop.Shadow {
		f.Shadow = new(p.File.Shadow())
	}
	if p.File.BulkAPI == nil {
		return f, nil, nil
	}
	source, err := p.bulkAPI()
	if err != nil {
		return f, nil, err
	}
	f.Users = cloudfoundry.NewUsers(source.Users)
	return f, source, nil
}

// bulkAPI returns the bulk API of the harmonizer's file.
func (p Parts) bulkAPI() (*bulkapi.Source, error) {
	api := p.File.BulkAPI
	c := bulkapi.Config{
		Host: api.Host, BatchSize: int(api.BatchSize), User: api.User, RequestTimeout: api.PageTimeout(),
		ExpectedStateUpdate: p.File.ExpectedUpdate(), ExpectedStateLost: p.File.ExpectedLost(),
		Apps: map[string]bulkapi.Footprint{},
	}
	for id, a := range p.File.Apps {
		c.Apps[id] = bulkapi.Footprint{Pool: a.Pool, CPUs: a.CPUs, Disk: a.Disk}
	}
	if every := c.Apps[bulkapi.EveryApp]; every.Pool == "" && len(p.Loop.Pools) > 0 {
		every.Pool = p.Loop.Pools[0]
		c.Apps[bulkapi.EveryApp] = every
	}
	if api.PasswordFile != "" {
		password, err := inputfile.Read(api.PasswordFile, maxPassword)
		if err == nil && len(password) > maxPassword {
			err = fmt.Errorf("%s has more than %d bytes: name the file of a password", api.PasswordFile, maxPassword)
		}
		if err != nil {
			return nil, fmt.Errorf("bulk_api.password_file: %w", err)
		}
		c.Password = strings.TrimSpace(string(password))
	}
	return bulkapi.New(c, bulkapi.BusCredentials(p.Bus.Conn(), p.File.Partition, p.File.RequestTimeout()), p.Log)
}
