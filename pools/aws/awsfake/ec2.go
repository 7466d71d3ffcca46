package awsfake

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// instanceID matches an instance id.
var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

func ec2Operations() map[string]operation {
	listing := []string{"DryRun", "MaxResults", "NextToken"}
	all := healthOperations()
	maps.Copy(all, map[string]operation{
		"DescribeInstances":         {do: describeInstances, params: append(listing, "InstanceId.", "Filter.")},
		"DescribeInstanceTypes":     {do: describeTypes, params: append(listing, "Filter.")},
		"DescribeTags":              {do: describeTags, params: append(listing, "Filter.")},
		"TerminateInstances":        {do: terminateInstances, write: true, on: "InstanceId", params: []string{"DryRun", "InstanceId."}},
		"DescribeSpotFleetRequests": {do: describeFleets, params: append(listing, "SpotFleetRequestId.")},
		"DescribeSpotFleetInstances": {do: describeFleetInstances,
			params: append(listing, "SpotFleetRequestId")},
		"DescribeSpotFleetRequestHistory": {do: describeFleetHistory,
			params: append(listing, "SpotFleetRequestId", "StartTime", "EventType")},
		"DescribeSpotPriceHistory": {do: describeSpotPrices, params: append(listing, "InstanceType.", "ProductDescription.", "StartTime", "EndTime")},
		"ModifySpotFleetRequest": {do: modifyFleet, write: true, on: "SpotFleetRequestId",
			params: []string{"SpotFleetRequestId", "TargetCapacity", "ExcessCapacityTerminationPolicy"}},
	})
	return all
}

// computePage returns a page as EC2 does. Without MaxResults it has all results.
func computePage[T any](r *request, all []T, least int) ([]T, string, error) {
	size := max(len(all), 1)
	if _, limited := r.params["MaxResults"]; limited || r.params["NextToken"] != "" {
		var err error
		if size, err = r.params.whole("MaxResults", 1000, least, 1000); err != nil {
			return nil, "", err
		}
	}
	return page(all, r.pageSize(size), r.params["NextToken"])
}

func describeInstances(r *request) (any, error) {
	ids, filters := r.params.list("InstanceId"), r.params.filters("Filter", "Value")
	if _, limited := r.params["MaxResults"]; limited && len(ids) > 0 {
		return nil, refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	if err := checkIDs(r.view, ids); err != nil {
		return nil, err
	}
	var found []*instance
	for _, i := range r.view.instances {
		ok, err := i.passes(filters)
		if err != nil {
			return nil, err
		}
		if ok && (len(ids) == 0 || slices.Contains(ids, i.id)) {
			found = append(found, i)
		}
	}
	part, next, err := computePage(r, found, 5)
	if err != nil {
		return nil, err
	}
	out := instancesAnswer{NextToken: next}
	for _, i := range part {
		out.Reservations = append(out.Reservations, reservation{
			ID: "r-" + strings.TrimPrefix(i.id, "i-"), Owner: r.config.Account, Instances: []instanceAnswer{i.answer()},
		})
	}
	return out, nil
}

// describeTypes describes the types of a filter. Each has 4 GiB of memory for a vCPU. A type of the family "none" does not exist.
func describeTypes(r *request) (any, error) {
	var found []typeAnswer
	for _, f := range r.params.filters("Filter", "Value") {
		if f.name != "instance-type" {
			return nil, refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
		for _, kind := range f.values {
			if n := vcpus(kind); !strings.HasPrefix(kind, "none.") {
				found = append(found, typeAnswer{kind, n, n * 4096})
			}
		}
	}
	part, next, err := computePage(r, found, 5)
	return typesAnswer{Types: part, NextToken: next}, err
}

type typesAnswer struct {
	Types     []typeAnswer `xml:"instanceTypeSet>item"`
	NextToken string       `xml:"nextToken,omitempty"`
}

type typeAnswer struct {
	Type  string `xml:"instanceType"`
	VCPUs int    `xml:"vCpuInfo>defaultVCpus"`
	MiB   int    `xml:"memoryInfo>sizeInMiB"`
}

// checkIDs returns an error for ids that are malformed, or of no instance.
func checkIDs(w *world, ids []string) error {
	var unknown []string
	for _, id := range ids {
		if !instanceID.MatchString(id) {
			return refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
		}
		if w.instance(id) == nil {
			unknown = append(unknown, id)
		}
	}
	switch len(unknown) {
	case 0:
		return nil
	case 1:
		return refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", unknown[0])
	}
	return refuse("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
}

func (i *instance) passes(filters []filter) (bool, error) {
	for _, f := range filters {
		ok, known := f.tagged(i.tags)
		if !known {
			text, is := map[string]string{
				"instance-id": i.id, "instance-type": i.market.Type, "availability-zone": i.market.Zone,
				"instance-state-name": i.state, "instance-lifecycle": i.kind(),
			}[f.name]
			if !is {
				return false, refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
			}
			ok = f.has(text)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// kind returns the instance's InstanceLifecycle.
func (i *instance) kind() string {
	if i.spot {
		return "spot"
	}
	return ""
}

type instancesAnswer struct {
	Reservations []reservation `xml:"reservationSet>item"`
	NextToken    string        `xml:"nextToken,omitempty"`
}

type reservation struct {
	ID        string           `xml:"reservationId"`
	Owner     string           `xml:"ownerId"`
	Instances []instanceAnswer `xml:"instancesSet>item"`
}

type instanceAnswer struct {
	ID           string        `xml:"instanceId"`
	Image        string        `xml:"imageId"`
	State        instanceState `xml:"instanceState"`
	DNS          string        `xml:"privateDnsName"`
	Reason       string        `xml:"reason"`
	LaunchIndex  int           `xml:"amiLaunchIndex"`
	Type         string        `xml:"instanceType"`
	Launched     string        `xml:"launchTime"`
	Zone         string        `xml:"placement>availabilityZone"`
	Tenancy      string        `xml:"placement>tenancy"`
	Monitoring   string        `xml:"monitoring>state"`
	Subnet       string        `xml:"subnetId"`
	PrivateIP    string        `xml:"privateIpAddress,omitempty"`
	Architecture string        `xml:"architecture"`
	StateReason  *stateReason  `xml:"stateReason"`
	Lifecycle    string        `xml:"instanceLifecycle,omitempty"`
	SpotRequest  string        `xml:"spotInstanceRequestId,omitempty"`
	Tags         []tag         `xml:"tagSet>item"`
	Interfaces   []nic         `xml:"networkInterfaceSet>item"`
}

// nic is a network interface.
type nic struct {
	ID     string          `xml:"networkInterfaceId"`
	Status string          `xml:"status"`
	Groups []securityGroup `xml:"groupSet>item"`
}

type securityGroup struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type instanceState struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type stateReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagList(tags map[string]string) []tag {
	var out []tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tag{key, tags[key]})
	}
	return out
}

func stateOf(name string) instanceState {
	code := map[string]int{pending: 0, running: 16, shuttingDown: 32, terminated: 48, stopping: 64, stopped: 80}[name]
	return instanceState{code, name}
}

func (i *instance) answer() instanceAnswer {
	var n uint32
	fmt.Sscanf(i.id[len(i.id)-6:], "%x", &n)
	a := instanceAnswer{
		ID: i.id, Image: "ami-0123456789abcdef0", State: stateOf(i.state), Type: i.market.Type, Launched: timestamp(i.launched),
		Zone: i.market.Zone, Subnet: subnet(i.market.Zone), Tenancy: "default", Monitoring: "disabled", Architecture: "x86_64",
		Lifecycle: i.kind(), SpotRequest: i.spotRequest(), Tags: tagList(i.tags),
	}
	if i.exists() {
		a.Interfaces = []nic{{ID: i.nic(), Status: "in-use"}}
		for _, id := range i.securityGroups {
			a.Interfaces[0].Groups = append(a.Interfaces[0].Groups, securityGroup{id, "group " + id})
		}
		a.PrivateIP = fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff)
		a.DNS = "ip-" + strings.ReplaceAll(a.PrivateIP, ".", "-") + ".ec2.internal"
		return a
	}
	switch i.by {
	case ByInterruption:
		a.StateReason = &stateReason{"Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"}
		a.Reason = "Server.SpotInstanceTermination"
	case ByLoss:
		a.StateReason = &stateReason{"Server.InternalError", "Server.InternalError: Internal error on launch"}
		a.Reason = "Server.InternalError"
	default:
		a.StateReason = &stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}
		a.Reason = "User initiated"
	}
	return a
}

// subnet returns the one subnet of a zone.
func subnet(zone string) string {
	return fmt.Sprintf("subnet-0%016x", []byte(zone[max(0, len(zone)-8):]))
}

// spotRequest returns the id of the instance's spot request.
func (i *instance) spotRequest() string {
	if !i.spot {
		return ""
	}
	return "sir-" + i.id[len(i.id)-8:]
}

type terminatingAnswer struct {
	Instances []terminating `xml:"instancesSet>item"`
}

type terminating struct {
	ID       string        `xml:"instanceId"`
	Current  instanceState `xml:"currentState"`
	Previous instanceState `xml:"previousState"`
}

// terminateInstances ends all of the instances or none. An instance that is already ending is not
// an error.
func terminateInstances(r *request) (any, error) {
	ids := r.params.list("InstanceId")
	switch {
	case len(ids) == 0:
		return nil, refuse("MissingParameter", "The request must contain the parameter InstanceId")
	case len(ids) > 1000:
		return nil, refuse("InvalidParameterValue", "The number of instance ids exceeds 1000")
	}
	if err := checkIDs(&r.world, ids); err != nil {
		return nil, err
	}
	var out terminatingAnswer
	for _, id := range ids {
		i := r.instance(id)
		before := i.state
		r.compute.endAlone(i, ByTerminate)
		if f := r.fleet(i.owner); f != nil && before != i.state {
			r.spot.addHistory(f, "instanceChange", "terminated", "", id)
		}
		out.Instances = append(out.Instances, terminating{id, stateOf(i.state), stateOf(before)})
	}
	return out, nil
}
