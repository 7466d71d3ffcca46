package aws

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// owner is the pool to which a group belongs.
type owner struct{ cluster, pool string }

func (o owner) String() string { return o.cluster + "/" + o.pool }

// maxTag is slightly above the limit of AWS for a tag's value, in bytes.
const maxTag = 4 << 10

// parseOwner decodes a tag's value: JSON with "pool" and "paasta_cluster" or "cluster", or the text
// CLUSTER/POOL. For any other value it returns false.
func parseOwner(value string) (owner, bool) {
	value = strings.TrimSpace(value)
	if len(value) > maxTag {
		return owner{}, false
	}
	if strings.HasPrefix(value, "{") {
		var v struct {
			Pool    string `json:"pool"`
			Cluster string `json:"cluster"`
			Paasta  string `json:"paasta_cluster"`
		}
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			return owner{}, false
		}
		if v.Paasta != "" && v.Cluster != "" && v.Paasta != v.Cluster {
			return owner{}, false
		}
		o := owner{cmp.Or(v.Paasta, v.Cluster), v.Pool}
		return o, o.cluster != "" && o.pool != ""
	}
	cluster, pool, ok := strings.Cut(value, "/")
	return owner{cluster, pool}, ok && cluster != "" && pool != "" && !strings.Contains(pool, "/")
}

// fleetPrefix is the prefix of the keys of Spot Fleet requests in a list.
const fleetPrefix = "aws_spot_fleet_request"

// parseList decodes an object of Clusterman's list. The result has the pool of each Spot Fleet
// request, by id.
func parseList(data []byte) (map[string]string, error) {
	var list struct {
		Resources map[string]json.RawMessage `json:"cluster_autoscaling_resources"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("not a list of resources: %w", err)
	}
	if list.Resources == nil {
		return nil, errors.New(`no "cluster_autoscaling_resources"`)
	}
	fleets := make(map[string]string)
	for key, raw := range list.Resources {
		if !strings.HasPrefix(key, fleetPrefix) {
			continue
		}
		var entry struct {
			ID   string `json:"id"`
			Pool string `json:"pool"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if entry.ID == "" || entry.Pool == "" {
			return nil, fmt.Errorf(`%s: want "id" and "pool"`, key)
		}
		if before, twice := fleets[entry.ID]; twice && before != entry.Pool {
			return nil, fmt.Errorf("%s: %w: %s and %s", entry.ID, errTwoPools, before, entry.Pool)
		}
		fleets[entry.ID] = entry.Pool
	}
	return fleets, nil
}
