package control

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

func TestNewDescriptionRefuses(t *testing.T) {
	metric := func(m *signalv1.RequiredMetric) *signalv1.DescribeResponse {
		return &signalv1.DescribeResponse{RequiredMetrics: []*signalv1.RequiredMetric{m}}
	}
	for _, test := range []struct {
		name     string
		answer   *signalv1.DescribeResponse
		wantText string // empty: valid
	}{
		{"empty", &signalv1.DescribeResponse{}, ""},
		{"no answer", nil, ""},
		{"an encoding that we do not know", &signalv1.DescribeResponse{Encodings: []string{"arrow"}}, ""},
		{"long name", &signalv1.DescribeResponse{Name: strings.Repeat("x", 256)}, "name has 256 bytes"},
		{"terminal codes", &signalv1.DescribeResponse{Version: "\x1b[31m"}, "version is not printable"},
		{"lines", &signalv1.DescribeResponse{Sdk: "a\nb"}, "sdk is not printable"},
		{"nameless metric", metric(&signalv1.RequiredMetric{Type: "t"}), "metric 0 has no name"},
		{"nil metric", metric(nil), "metric 0 has no name"},
		{"long metric", metric(&signalv1.RequiredMetric{Name: strings.Repeat("x", 2000)}), "2000 bytes"},
		{"long type", metric(&signalv1.RequiredMetric{Name: "n", Type: strings.Repeat("x", 2000)}), "type of required metric 0"},
		{"many metrics", &signalv1.DescribeResponse{RequiredMetrics: make([]*signalv1.RequiredMetric, 1001)}, "1001 required metrics"},
		{"many encodings", &signalv1.DescribeResponse{Encodings: make([]string, 17)}, "17 encodings"},
		{"long encoding", &signalv1.DescribeResponse{Encodings: []string{strings.Repeat("x", 300)}}, "encoding 0"},
		{"other wire", &signalv1.DescribeResponse{WireVersion: 2}, "has wire version 2, want 1"},
		{"long schema", &signalv1.DescribeResponse{ParametersSchema: make([]byte, 65<<10)}, "at most 65536"},
		{"schema that is a list", &signalv1.DescribeResponse{ParametersSchema: []byte(" []")}, "not a JSON object"},
		{"schema that is no JSON", &signalv1.DescribeResponse{ParametersSchema: []byte("{")}, "not a JSON object"},
		{"schema of spaces", &signalv1.DescribeResponse{ParametersSchema: []byte("  ")}, "not a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newDescription(test.answer, 1)
			if test.wantText == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkError(t, err, errDescription, test.wantText)
		})
	}
}

func FuzzDescription(f *testing.F) {
	for _, answer := range []*signalv1.DescribeResponse{
		{Name: "n", Version: "v", Encodings: []string{"columnar"}},
		{RequiredMetrics: []*signalv1.RequiredMetric{{Name: "m", Type: "t", RangeSeconds: 1 << 31, Regex: true}}},
		{ParametersSchema: []byte(`{"a":1}`), WireVersion: 1},
	} {
		data, err := proto.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := new(signalv1.DescribeResponse)
		if proto.Unmarshal(data, answer) != nil {
			return
		}
		d, err := newDescription(answer, 1)
		if err != nil {
			if !errors.Is(err, errDescription) {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(d.Metrics) > maxMetrics || len(d.Schema) > maxSchema || slices.ContainsFunc(d.Metrics, func(m RequiredMetric) bool {
			return m.Name == "" || m.Range < 0
		}) {
			t.Errorf("description %+v", d)
		}
	})
}
