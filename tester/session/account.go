// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/neighbour"
)

// FormatAccount is the value of Account.Format.
const FormatAccount = "weir-tester-account/1"

// Account is the result of a run: sent against received, per stream. It is also the document by
// which two machines combine their halves (Join).
type Account struct {
	Format  string        `json:"format"`
	Name    string        `json:"name,omitempty"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Clock is the meaning of all delays below.
	Clock      Clock             `json:"clock"`
	Mechanisms map[string]string `json:"mechanisms"`  // "sender" and "receiver", by port
	Streams    []Stream          `json:"streams"`     // by identifier
	Foreign    uint64            `json:"foreign"`     // frames without a stamp at the receiving ports
	Unknown    uint64            `json:"unknown"`     // stamped frames of streams that were not announced
	Refused    uint64            `json:"refused"`     // sent frames that the sending device or its peer did not accept
	Dropped    uint64            `json:"dropped"`     // frames that the receiving devices dropped before the analyzer saw them
	Steal      float64           `json:"steal"`       // share of CPU time that the host took away during the run
	Others     float64           `json:"others"`      // share of CPU time that other programs spent in user space during the run
	LinkDown   bool              `json:"link_down"`   // a port's link went down during the run
	Lateness   *hist.Histogram   `json:"lateness_ns"` // between due and sent, of all paced frames
	Ended      string            `json:"ended"`       // reason for the generators' end
	Stopped    bool              `json:"stopped,omitempty"`
	// Neighbours counts requests for addresses of the streams; nil without requests.
	Neighbours *neighbour.Counts `json:"neighbours,omitempty"`
	// Notes are remarks for interpreting the figures.
	Notes  []string  `json:"notes,omitempty"`
	Series []Reading `json:"series,omitempty"`
	// Captured are the frames around errors, by receiving port; they go to a pcapng file, never
	// into JSON. Epoch is the wall-clock time at which this machine's CLOCK_MONOTONIC was zero.
	Epoch    time.Time                         `json:"-"`
	Captured map[string][]tester.CapturedFrame `json:"-"`
}

// Stream is one stream's account. Sent is nil if the sender is elsewhere, Received if the receiver
// is.
type Stream struct {
	ID       uint16         `json:"id"`
	Name     string         `json:"name"`
	From     string         `json:"from,omitempty"`
	To       string         `json:"to,omitempty"`
	Asked    float64        `json:"asked_frame_rate"` // frame/s; 0 is as fast as possible
	Sent     *tester.Sent   `json:"sent,omitempty"`
	Received *tester.Counts `json:"received,omitempty"`
	// Lost counts sent frames that never arrived, including those after the last arrival. With the
	// receiver alone it is Received.Lost, which excludes frames after the last arrival.
	Lost uint64 `json:"lost"`
	// TailLost counts the frames of Lost that were sent after the last frame that arrived.
	TailLost uint64 `json:"tail_lost"`
}

// LossShare returns lost over sent frames; with the receiver alone, over the frames up to the last
// arrival; 0 without frames.
func (s Stream) LossShare() float64 {
	total := s.Lost
	switch {
	case s.Sent != nil:
		total = s.Sent.Frames
	case s.Received != nil:
		total += s.Received.Unique
	}
	if total == 0 {
		return 0
	}
	return float64(s.Lost) / float64(total)
}

// Rate returns the frame rate that the sender achieved, from the first to the last frame; 0 with
// fewer than two.
func (s Stream) Rate() float64 {
	if s.Sent == nil {
		return 0
	}
	return rate(s.Sent.Frames, s.Sent.Last-s.Sent.First)
}

// Arrival returns the frame rate at the receiver, from the first to the last arrival; 0 with fewer
// than two.
func (s Stream) Arrival() float64 {
	if s.Received == nil {
		return 0
	}
	return rate(s.Received.Received, s.Received.Last-s.Received.First)
}

func rate(frames uint64, span time.Duration) float64 {
	if frames < 2 || span <= 0 {
		return 0
	}
	return float64(frames-1) / span.Seconds()
}

// Reading is one second of one stream.
type Reading struct {
	At       time.Duration `json:"at_ns"` // since the run began
	Stream   uint16        `json:"stream"`
	Sent     float64       `json:"sent_frame_rate"`     // frame/s over the interval
	Received float64       `json:"received_frame_rate"` // frame/s
	Wire     float64       `json:"received_wire_rate"`  // bit/s, preamble and gap included
	Lost     uint64        `json:"lost"`                // so far, by the receiver
	Delay    float64       `json:"mean_delay_ns"`       // of the interval's frames; 0 without any
}
