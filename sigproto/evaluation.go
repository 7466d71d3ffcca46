package sigproto

// Limits of version 1, where a peer sets none of its own.
const (
	DefaultMaxBody     = 1 << 30 // bytes of an evaluation's body
	DefaultMaxResponse = 1 << 20 // bytes of a response
	maxHello           = 1 << 20 // bytes of a hello
	maxAnswer          = 4096    // bytes of the second ACK and the response that we send
)

// The two bytes of an ACK.
const (
	ackGood    = 0x01
	ackRefused = 0x02
)

// Series is one named line of points. Times and Values have the same length;
// Times ascend, and may repeat.
type Series struct {
	Name   string
	Times  []int64   // unix seconds
	Values []float64 // finite
	// Lineage, if not 0, promises the sender: since an evaluation with a series of
	// this name and the same lineage, points were only added behind the last one
	// and taken away at the front. 0 promises nothing. It is never sent.
	Lineage uint64
}

// Evaluation is the question: the windows of all metrics at one moment. Each
// series has a name of its own.
type Evaluation struct {
	Timestamp int64 // unix seconds
	Series    []Series
	// Unknown holds the keys of a received body that version 1 does not know.
	// It is never sent.
	Unknown []string
}
