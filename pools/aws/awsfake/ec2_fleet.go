package awsfake

import (
	"slices"
	"time"
)

type fleetsAnswer struct {
	Fleets    []fleetAnswer `xml:"spotFleetRequestConfigSet>item"`
	NextToken string        `xml:"nextToken,omitempty"`
}

type fleetAnswer struct {
	ID       string      `xml:"spotFleetRequestId"`
	State    string      `xml:"spotFleetRequestState"`
	Activity string      `xml:"activityStatus"`
	Created  string      `xml:"createTime"`
	Config   fleetConfig `xml:"spotFleetRequestConfig"`
	Tags     []tag       `xml:"tagSet>item"`
}

type fleetConfig struct {
	Role        string          `xml:"iamFleetRole"`
	Type        string          `xml:"type"`
	Strategy    string          `xml:"allocationStrategy"`
	Target      int             `xml:"targetCapacity"`
	Fulfilled   float64         `xml:"fulfilledCapacity"`
	OnDemand    int             `xml:"onDemandTargetCapacity"`
	OnDemandHas float64         `xml:"onDemandFulfilledCapacity"`
	Excess      string          `xml:"excessCapacityTerminationPolicy"`
	Expiration  bool            `xml:"terminateInstancesWithExpiration"`
	Replace     bool            `xml:"replaceUnhealthyInstances"`
	Specs       []fleetSpec     `xml:"launchSpecifications>item"`
	Templates   []fleetTemplate `xml:"launchTemplateConfigs>item"`
	Balancers   []fleetBalancer `xml:"loadBalancersConfig>targetGroupsConfig>targetGroups>item"`
}

type fleetBalancer struct {
	ARN string `xml:"arn"`
}

type fleetTemplate struct {
	ID        string          `xml:"launchTemplateSpecification>launchTemplateId"`
	Version   string          `xml:"launchTemplateSpecification>version"`
	Overrides []fleetOverride `xml:"overrides>item"`
}

type fleetOverride struct {
	Type   string   `xml:"instanceType"`
	Zone   string   `xml:"availabilityZone"`
	Weight *float64 `xml:"weightedCapacity"`
}

type fleetSpec struct {
	Image  string         `xml:"imageId"`
	Type   string         `xml:"instanceType"`
	Zone   string         `xml:"placement>availabilityZone"`
	Weight *float64       `xml:"weightedCapacity"`
	Tags   []fleetSpecTag `xml:"tagSpecificationSet>item"`
}

type fleetSpecTag struct {
	Resource string `xml:"resourceType"`
	Tags     []tag  `xml:"tag>item"`
}

func describeFleets(r *request) (any, error) {
	ids := r.params.list("SpotFleetRequestId")
	for _, id := range ids {
		if r.view.fleet(id) == nil {
			return nil, noFleet(id)
		}
	}
	var found []*fleet
	for _, f := range r.view.fleets {
		if len(ids) == 0 || slices.Contains(ids, f.ID) {
			found = append(found, f)
		}
	}
	part, next, err := computePage(r, found, 1)
	if err != nil {
		return nil, err
	}
	out := fleetsAnswer{NextToken: next}
	for _, f := range part {
		out.Fleets = append(out.Fleets, r.fleetAnswer(f))
	}
	return out, nil
}

func noFleet(id string) error {
	return refuse("InvalidSpotFleetRequestId.NotFound", "The spot fleet request ID '%s' does not exist", id)
}

func (r *request) fleetAnswer(f *fleet) fleetAnswer {
	fulfilled := r.view.weight(f.ID, (*instance).alive)
	a := fleetAnswer{
		ID: f.ID, State: f.state, Activity: f.status(fulfilled), Created: timestamp(f.created), Tags: tagList(f.Tags),
		Config: fleetConfig{
			Role: "arn:aws:iam::" + r.config.Account + ":role/aws-ec2-spot-fleet-tagging-role", Type: "maintain",
			Strategy: "diversified", Target: f.Target, Fulfilled: fulfilled, Excess: "default", Expiration: true,
			Replace: f.ReplacesUnhealthy,
		},
	}
	for _, name := range f.TargetGroups {
		a.Config.Balancers = append(a.Config.Balancers, fleetBalancer{r.cloud.targetGroup(name).arn})
	}
	if f.keep {
		a.Config.Excess = "noTermination"
	}
	if f.Template {
		a.Config.Templates = []fleetTemplate{f.template()}
		return a
	}
	for _, s := range f.Specs {
		spec := fleetSpec{Image: "ami-0123456789abcdef0", Type: s.Type, Zone: s.Zone}
		spec.Weight = s.described()
		if len(s.Tags) > 0 {
			spec.Tags = []fleetSpecTag{{"instance", tagList(s.Tags)}}
		}
		a.Config.Specs = append(a.Config.Specs, spec)
	}
	return a
}

// described returns the weight, or nil for 0.
func (s LaunchSpec) described() *float64 {
	if s.Weight == 0 {
		return nil
	}
	return &s.Weight
}

func (f *fleet) template() fleetTemplate {
	t := fleetTemplate{ID: "lt-0123456789abcdef0", Version: "1"}
	for _, s := range f.Specs {
		t.Overrides = append(t.Overrides, fleetOverride{s.Type, s.Zone, s.described()})
	}
	return t
}

type fleetInstancesAnswer struct {
	ID        string          `xml:"spotFleetRequestId"`
	Instances []fleetInstance `xml:"activeInstanceSet>item"`
	NextToken string          `xml:"nextToken,omitempty"`
}

type fleetInstance struct {
	ID      string `xml:"instanceId"`
	Type    string `xml:"instanceType"`
	Request string `xml:"spotInstanceRequestId"`
	Health  string `xml:"instanceHealth"`
}

func describeFleetInstances(r *request) (any, error) {
	id := r.params["SpotFleetRequestId"]
	if r.view.fleet(id) == nil {
		return nil, noFleet(id)
	}
	part, next, err := computePage(r, r.view.members(id, (*instance).alive), 1)
	if err != nil {
		return nil, err
	}
	out := fleetInstancesAnswer{ID: id, NextToken: next}
	for _, i := range part {
		out.Instances = append(out.Instances, fleetInstance{i.id, i.market.Type, i.spotRequest(), "healthy"})
	}
	return out, nil
}

type historyAnswer struct {
	ID        string        `xml:"spotFleetRequestId"`
	Start     string        `xml:"startTime"`
	Evaluated string        `xml:"lastEvaluatedTime"`
	Events    []historyItem `xml:"historyRecordSet>item"`
	NextToken string        `xml:"nextToken,omitempty"`
}

type historyItem struct {
	At       string `xml:"timestamp"`
	Type     string `xml:"eventType"`
	Sub      string `xml:"eventInformation>eventSubType"`
	About    string `xml:"eventInformation>eventDescription,omitempty"`
	Instance string `xml:"eventInformation>instanceId,omitempty"`
}

func describeFleetHistory(r *request) (any, error) {
	f := r.view.fleet(r.params["SpotFleetRequestId"])
	if f == nil {
		return nil, noFleet(r.params["SpotFleetRequestId"])
	}
	since, err := time.Parse(time.RFC3339, r.params["StartTime"])
	if err != nil {
		return nil, refuse("InvalidParameterValue", "Value ( %s ) for parameter startTime is invalid.", r.params["StartTime"])
	}
	kind := r.params["EventType"]
	var found []historyItem
	for _, e := range f.history {
		if !e.at.Before(since) && (kind == "" || e.kind == kind) {
			found = append(found, historyItem{timestamp(e.at), e.kind, e.sub, e.about, e.instance})
		}
	}
	part, next, err := computePage(r, found, 1)
	if err != nil {
		return nil, err
	}
	return historyAnswer{ID: f.ID, Start: timestamp(since), Evaluated: timestamp(r.now), Events: part, NextToken: next}, nil
}

type modifyAnswer struct {
	Return bool `xml:"return"`
}

func modifyFleet(r *request) (any, error) {
	f := r.fleet(r.params["SpotFleetRequestId"])
	if f == nil {
		return nil, noFleet(r.params["SpotFleetRequestId"])
	}
	if f.state != fleetActive {
		return nil, refuse("FleetNotInModifiableState", "The Spot Fleet request must be in the active state in order to modify it. It is in the state %s.", f.state)
	}
	target, err := r.params.whole("TargetCapacity", f.Target, 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	keep := f.keep
	switch r.params["ExcessCapacityTerminationPolicy"] {
	case "":
	case "noTermination":
		keep = true
	case "default":
		keep = false
	default:
		return nil, refuse("InvalidParameterValue", "Value ( %s ) for parameter excessCapacityTerminationPolicy is invalid.", r.params["ExcessCapacityTerminationPolicy"])
	}
	r.spot.modify(f, target, keep)
	return modifyAnswer{true}, nil
}
