package sigproto

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// decodeAny reads a body in any valid JSON form.
func decodeAny(body []byte) (Evaluation, error) {
	var out Evaluation
	var metrics, timestamp bool
	err := whole(body, func(dec *json.Decoder, key string) error {
		switch key {
		case "metrics":
			metrics = true
			return object(dec, key, func(name string) error { return out.readSeries(dec, name) })
		case "timestamp":
			timestamp = true
			var t *float64
			if err := dec.Decode(&t); err != nil {
				return err
			}
			return setTime(&out.Timestamp, t)
		}
		out.Unknown = append(out.Unknown, key)
		return skip(dec)
	})
	switch {
	case err != nil:
		return Evaluation{}, err
	case !metrics:
		return Evaluation{}, fieldError("metrics", errors.New("is missing"))
	case !timestamp:
		return Evaluation{}, fieldError("timestamp", errors.New("is missing"))
	}
	return out, nil
}

func (e *Evaluation) readSeries(dec *json.Decoder, name string) error {
	var points [][]*float64
	if err := dec.Decode(&points); err != nil {
		return err
	}
	if points == nil {
		return errors.New("is null, want [[time, value], ...]")
	}
	s := Series{Name: name}
	for i, p := range points {
		if len(p) != 2 || p[1] == nil {
			return fmt.Errorf("point %d is not [time, value]", i)
		}
		var t int64
		if err := setTime(&t, p[0]); err != nil {
			return fmt.Errorf("time of point %d %w", i, err)
		}
		if i > 0 && t < s.Times[i-1] {
			return fmt.Errorf("point %d %w", i, errOlder)
		}
		s.Times, s.Values = append(s.Times, t), append(s.Values, *p[1])
	}
	e.Series = append(e.Series, s)
	return nil
}

// setTime sets a time, and cuts its fraction.
func setTime(dst *int64, t *float64) error {
	switch {
	case t == nil:
		return errors.New("is null, want unix seconds")
	case math.Abs(*t) > maxTime:
		return fmt.Errorf("is %v, want unix seconds", *t)
	}
	*dst = int64(math.Floor(*t))
	return nil
}
