// SPDX-License-Identifier: Apache-2.0

package predict

import "strings"

// Names of the models in predictions.
const (
	ModelMathis = "Mathis"
	ModelPFTK   = "PFTK"
	ModelCUBIC  = "CUBIC"
)

// Flow holds the measured properties of a TCP flow that decide which equations describe it.
type Flow struct {
	Path
	Congestion string // the sender's congestion control, by the kernel's name
	Segments   uint64 // data segments sent; 0 where the generator does not count them
	Events     uint64 // loss events
	Marked     uint64 // segments acknowledged with an ECN congestion mark
}

// Absence is the reason for a missing prediction, in two words.
type Absence string

const (
	UnknownControl Absence = "unknown control" // the generator does not report the congestion control
	NotLossBased   Absence = "not loss-based"  // BBR follows its estimate of the path's rate, not losses
	NoEquation     Absence = "no equation"     // for this congestion control
	NotCUBIC       Absence = "not CUBIC"       // RFC 9438's function is CUBIC's alone
	NotCounted     Absence = "not counted"     // the generator counts neither segments nor loss events
	Marks          Absence = "ECN-marked"      // marks reduced the window too, and p does not include them
	Lossless       Absence = "no loss"         // no loss event: the equations are unbounded
	NoRTT          Absence = "no RTT"
	RateLimited    Absence = "rate-limited"   // the link's or application's rate is below the equation's
	UnderLimit     Absence = "under a limit"  // a bandwidth limit on its host limits the flow
	WindowLimited  Absence = "window-limited" // the receiver's window or the send buffer limited, not loss
)

// Absent returns the reason that a model has no prediction of the flow; "" if it has one. Mathis
// and PFTK describe Reno, and CUBIC, which is as fast as Reno in its Reno-friendly region and
// faster outside. RFC 9438 describes CUBIC alone. Absent does not consider limits other than loss:
// see [RateLimited] and [WindowLimited].
func (f Flow) Absent(model string) Absence {
	switch c := f.Congestion; {
	case c == "":
		return UnknownControl
	case strings.HasPrefix(c, "bbr"):
		return NotLossBased
	case c != "reno" && c != "cubic":
		return NoEquation
	case model == ModelCUBIC && c != "cubic":
		return NotCUBIC
	}
	switch {
	case f.Segments == 0:
		return NotCounted
	case f.Marked > 0:
		return Marks
	case f.Events == 0:
		return Lossless
	case f.RTT <= 0:
		return NoRTT
	}
	return ""
}
