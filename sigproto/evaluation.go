package sigproto

// Limits of version 1 that apply by default.
const (
	DefaultMaxBody     = 1 << 30 // bytes of an evaluation's body
	DefaultMaxResponse = 1 << 20 // bytes of a response
	maxHello           = 1 << 20 // bytes of a hello
	maxAnswer          = 4096    // bytes of the second ACK and the response that we send
)

// CountSuffix ends the name of the series with the counts of another series, of a window with a resolution.
const CountSuffix = "#count"

// The two bytes of an ACK.
const (
	ackGood    = 0x01
	ackRefused = 0x02
)

// Series is a named sequence of points. Times and Values have the same length. Times ascend and may repeat.
type Series struct {
	Name   string
	Times  []int64   // unix seconds
	Values []float64 // finite
	// Lineage, if not 0, is a promise of the sender: since an evaluation with the same name and lineage, points were
	// only appended at the end and removed at the front. 0 promises nothing. It is not sent.
	Lineage uint64
}

// Evaluation is a request: the windows of all metrics at one time. Names of series are unique.
type Evaluation struct {
	Timestamp int64 // unix seconds
	Series    []Series
	// Unknown holds the unknown keys of a received body. It is not sent.
	Unknown []string
}
