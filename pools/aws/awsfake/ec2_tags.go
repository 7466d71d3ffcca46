package awsfake

import (
	"maps"
	"slices"
)

type tagsAnswer struct {
	Tags      []taggedAnswer `xml:"tagSet>item"`
	NextToken string         `xml:"nextToken,omitempty"`
}

type taggedAnswer struct {
	Key          string `xml:"key"`
	ResourceID   string `xml:"resourceId"`
	ResourceType string `xml:"resourceType"`
	Value        string `xml:"value"`
}

// describeTags returns the tags of instances. Tags of other resources are not supported.
func describeTags(r *request) (any, error) {
	filters := r.params.filters("Filter", "Value")
	var found []taggedAnswer
	for _, i := range r.view.instances {
		for _, key := range slices.Sorted(maps.Keys(i.tags)) {
			t := taggedAnswer{key, i.id, "instance", i.tags[key]}
			ok, err := t.passes(filters)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, t)
			}
		}
	}
	part, next, err := computePage(r, found, 5)
	return tagsAnswer{part, next}, err
}

func (t taggedAnswer) passes(filters []filter) (bool, error) {
	for _, f := range filters {
		text, known := map[string]string{
			"key": t.Key, "resource-id": t.ResourceID, "resource-type": t.ResourceType, "value": t.Value,
		}[f.name]
		if !known {
			return false, refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
		if !f.has(text) {
			return false, nil
		}
	}
	return true, nil
}
