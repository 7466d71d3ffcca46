package awsfake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

type groupsAnswer struct {
	Groups    []groupAnswer `xml:"AutoScalingGroups>member"`
	NextToken string        `xml:",omitempty"`
}

type groupAnswer struct {
	Name              string         `xml:"AutoScalingGroupName"`
	ARN               string         `xml:"AutoScalingGroupARN"`
	LaunchTemplate    *template      `xml:",omitempty"`
	Mixed             *mixedInstance `xml:"MixedInstancesPolicy,omitempty"`
	MinSize           int
	MaxSize           int
	DesiredCapacity   int
	DefaultCooldown   int
	Zones             []string `xml:"AvailabilityZones>member"`
	HealthCheckType   string
	HealthCheckGrace  int           `xml:"HealthCheckGracePeriod"`
	Members           []groupMember `xml:"Instances>member"`
	CreatedTime       string
	Suspended         []suspended `xml:"SuspendedProcesses>member"`
	Tags              []groupTag  `xml:"Tags>member"`
	Policies          []string    `xml:"TerminationPolicies>member"`
	NewProtected      bool        `xml:"NewInstancesProtectedFromScaleIn"`
	TargetGroupARNs   []string    `xml:"TargetGroupARNs>member"`
	VPCZoneIdentifier string
	CapacityRebalance bool
	Status            string `xml:",omitempty"`
}

type template struct {
	ID      string `xml:"LaunchTemplateId"`
	Name    string `xml:"LaunchTemplateName"`
	Version string
}

type mixedInstance struct {
	Template     template   `xml:"LaunchTemplate>LaunchTemplateSpecification"`
	Overrides    []override `xml:"LaunchTemplate>Overrides>member"`
	Distribution struct {
		OnDemandAllocationStrategy          string
		OnDemandBaseCapacity                int
		OnDemandPercentageAboveBaseCapacity int
		SpotAllocationStrategy              string
	} `xml:"InstancesDistribution"`
}

type override struct {
	InstanceType     string
	WeightedCapacity string `xml:",omitempty"`
}

type groupMember struct {
	ID               string `xml:"InstanceId"`
	InstanceType     string
	AvailabilityZone string
	LifecycleState   string
	HealthStatus     string
	LaunchTemplate   template
	Protected        bool   `xml:"ProtectedFromScaleIn"`
	WeightedCapacity string `xml:",omitempty"`
}

type suspended struct{ ProcessName, SuspensionReason string }

type groupTag struct {
	ResourceID        string `xml:"ResourceId"`
	ResourceType      string
	Key, Value        string
	PropagateAtLaunch bool
}

func (g *group) template(version int) template {
	return template{ID: "lt-0123456789abcdef0", Name: g.Name, Version: strconv.Itoa(version)}
}

func (r *request) groupAnswer(g *group, members bool) groupAnswer {
	a := groupAnswer{
		Name: g.Name, ARN: r.groupARN(g.Name), MinSize: g.Min, MaxSize: g.Max, DesiredCapacity: g.Desired,
		DefaultCooldown: int(defaultCooldown / time.Second), Zones: g.Zones, HealthCheckType: "EC2", HealthCheckGrace: 300,
		CreatedTime: timestamp(g.created), Policies: []string{"Default"}, NewProtected: g.ProtectNew, Status: g.status,
	}
	if g.mixed() || g.Spot {
		a.Mixed = g.mixedAnswer()
	} else {
		a.LaunchTemplate = new(g.template(g.version))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		a.Tags = append(a.Tags, groupTag{g.Name, scalingGroup, key, g.Tags[key], true})
	}
	for _, key := range slices.Sorted(maps.Keys(g.notes)) {
		a.Tags = append(a.Tags, groupTag{g.Name, scalingGroup, key, g.notes[key], false})
	}
	for _, process := range g.suspended {
		a.Suspended = append(a.Suspended, suspended{process, "User suspended at " + iso(r.now)})
	}
	for _, name := range g.TargetGroups {
		a.TargetGroupARNs = append(a.TargetGroupARNs, r.cloud.targetGroup(name).arn)
	}
	if members {
		for _, i := range r.view.members(g.Name, (*instance).listed) {
			a.Members = append(a.Members, g.memberAnswer(i))
		}
	}
	return a
}

func (g *group) mixedAnswer() *mixedInstance {
	m := &mixedInstance{Template: g.template(g.version)}
	for _, t := range g.Types {
		m.Overrides = append(m.Overrides, override{t.Name, weightText(t.Weight)})
	}
	m.Distribution.OnDemandAllocationStrategy = "prioritized"
	m.Distribution.SpotAllocationStrategy = "capacity-optimized-prioritized"
	if m.Distribution.OnDemandPercentageAboveBaseCapacity = 100; g.Spot {
		m.Distribution.OnDemandPercentageAboveBaseCapacity = 0
	}
	return m
}

func weightText(weight int) string {
	if weight == 0 {
		return ""
	}
	return strconv.Itoa(weight)
}

func (g *group) memberAnswer(i *instance) groupMember {
	m := groupMember{
		ID: i.id, InstanceType: i.market.Type, AvailabilityZone: i.market.Zone, LifecycleState: i.lifecycle,
		HealthStatus: "Healthy", LaunchTemplate: g.template(i.version), Protected: i.protected,
	}
	if i.unhealthy {
		m.HealthStatus = "Unhealthy"
	}
	if g.weighted() {
		m.WeightedCapacity = fmt.Sprint(i.weight)
	}
	return m
}

type activitiesAnswer struct {
	Activities []activityAnswer `xml:"Activities>member"`
	NextToken  string           `xml:",omitempty"`
}

type terminateAnswer struct{ Activity activityAnswer }

type activityAnswer struct {
	ID            string `xml:"ActivityId"`
	Group         string `xml:"AutoScalingGroupName"`
	ARN           string `xml:"AutoScalingGroupARN"`
	Description   string
	Cause         string
	StartTime     string
	EndTime       string `xml:",omitempty"`
	StatusCode    string
	StatusMessage string `xml:",omitempty"`
	Progress      int
	Details       string
	started       time.Time
}

func (c *scaling) activityAnswer(g *group, a activity) activityAnswer {
	return activityAnswer{
		ID: a.id, Group: g.Name, ARN: c.groupARN(g.Name), Description: a.description, Cause: a.cause,
		StartTime: timestamp(a.start), EndTime: timestamp(a.end), StatusCode: a.status, StatusMessage: a.message,
		Progress: a.progress, Details: "{}", started: a.start,
	}
}

type refreshesAnswer struct {
	Refreshes []refreshAnswer `xml:"InstanceRefreshes>member"`
	NextToken string          `xml:",omitempty"`
}

type refreshAnswer struct {
	ID         string `xml:"InstanceRefreshId"`
	Group      string `xml:"AutoScalingGroupName"`
	Status     string
	Start      string `xml:"StartTime"`
	End        string `xml:"EndTime,omitempty"`
	Percentage int    `xml:"PercentageComplete"`
	Left       int    `xml:"InstancesToUpdate"`
}
