package prometheus

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Sample is one value of a tick, as remote write sends it.
type Sample struct {
	Labels [][2]string // name and value, sorted by name, with __name__
	Value  float64
	// Exemplar has the labels of an exemplar with the same value and time; empty: none.
	Exemplar [][2]string
}

// Numbers of the fields of remote write 1.0: WriteRequest, TimeSeries, Label, Sample, Exemplar.
const (
	requestSeries = 1

	seriesLabels    = 1
	seriesSamples   = 2
	seriesExemplars = 3

	labelName  = 1
	labelValue = 2

	sampleValue = 1
	sampleTime  = 2 // milliseconds since 1970

	exemplarLabels = 1
	exemplarValue  = 2
	exemplarTime   = 3
)

// encodeSamples returns a WriteRequest with one series for each sample.
func encodeSamples(at time.Time, all []Sample) []byte {
	var request, series, part []byte
	for _, s := range all {
		series = appendLabels(series[:0], &part, seriesLabels, s.Labels)
		part = appendPoint(part[:0], sampleValue, s.Value, sampleTime, at)
		series = appendMessage(series, seriesSamples, part)
		if len(s.Exemplar) > 0 {
			var exemplar []byte
			exemplar = appendLabels(exemplar, &part, exemplarLabels, s.Exemplar)
			exemplar = appendPoint(exemplar, exemplarValue, s.Value, exemplarTime, at)
			series = appendMessage(series, seriesExemplars, exemplar)
		}
		request = appendMessage(request, requestSeries, series)
	}
	return request
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

// appendLabels appends labels as messages of a field. part is a buffer.
func appendLabels(b []byte, part *[]byte, field protowire.Number, labels [][2]string) []byte {
	for _, l := range labels {
		p := protowire.AppendString(protowire.AppendTag((*part)[:0], labelName, protowire.BytesType), l[0])
		*part = protowire.AppendString(protowire.AppendTag(p, labelValue, protowire.BytesType), l[1])
		b = appendMessage(b, field, *part)
	}
	return b
}

// appendPoint appends a value and its time.
func appendPoint(b []byte, valueField protowire.Number, value float64, timeField protowire.Number, at time.Time) []byte {
	b = protowire.AppendFixed64(protowire.AppendTag(b, valueField, protowire.Fixed64Type), math.Float64bits(value))
	return protowire.AppendVarint(protowire.AppendTag(b, timeField, protowire.VarintType), uint64(at.UnixMilli()))
}
