package ask

import (
	"reflect"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// RequestSpec is the content of the requests to one version of a signal. While one version replaces
// another, each process has its own. It is read-only.
type RequestSpec struct {
	Windows []Window
	// The client sends these when it connects.
	Parameters map[string]any
	Setpoint   float64       // of the pool
	Launch     time.Duration `json:"-"` // of an advisor, as in sigproto.Hello: the panel sets it
}

// equal reports whether requests of both have the same content.
func (s RequestSpec) equal(other RequestSpec) bool {
	return slices.Equal(s.Windows, other.Windows) && s.Setpoint == other.Setpoint && s.Launch == other.Launch && (len(s.Parameters) == 0 && len(other.Parameters) == 0 ||
		reflect.DeepEqual(s.Parameters, other.Parameters))
}

// request is a RequestSpec with the series of its windows.
type request struct {
	spec  RequestSpec
	body  sigproto.Evaluation
	short string // describes a window of usage without its beginning; empty: all complete
}

// request reads the windows of spec into a request of an app's signal or of an advisor. The error is as in series.
func (r *windowReader) request(app string, spec RequestSpec) (request, error) {
	series, short, err := r.series(sigproto.AppOf(app), spec.Windows)
	return request{spec, sigproto.Evaluation{Timestamp: r.now.Unix(), Series: series}, short}, err
}
