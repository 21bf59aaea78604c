// SPDX-License-Identifier: Apache-2.0

package predict

import "strings"

// Names of the models, as predictions carry them.
const (
	ModelMathis = "Mathis"
	ModelPFTK   = "PFTK"
	ModelCUBIC  = "CUBIC"
)

// Flow is what was measured of a TCP flow, as far as it decides which equations describe it.
type Flow struct {
	Path
	Congestion string // the sender's congestion control, by the kernel's name
	Segments   uint64 // data segments sent; 0 where the generator does not count them
	Events     uint64 // loss events
	Marked     uint64 // segments acknowledged with an ECN congestion mark
}

// Absence says in two words why there is no prediction.
type Absence string

const (
	UnknownControl Absence = "unknown control" // the generator does not tell which congestion control sent
	NotLossBased   Absence = "not loss-based"  // BBR follows its estimate of the path's rate, whatever is lost
	NoEquation     Absence = "no equation"     // of this congestion control
	NotCUBIC       Absence = "not CUBIC"       // RFC 9438's function is CUBIC's alone
	NotCounted     Absence = "not counted"     // the generator counts neither segments nor loss events
	Marks          Absence = "ECN-marked"      // the window was reduced for marks too, which p does not hold
	Lossless       Absence = "no loss"         // no loss event: the equations have no limit
	NoRTT          Absence = "no RTT"
	RateLimited    Absence = "rate-limited"   // the link or the application allows less than the equation
	UnderLimit     Absence = "under a limit"  // a bandwidth limit on its host holds the flow back
	WindowLimited  Absence = "window-limited" // the receiver's window or the send buffer limited, not loss
)

// Absent says why a model has no prediction of the flow; "" if it has one. Reno and CUBIC are
// described by Mathis and PFTK, CUBIC since it is no slower than Reno in its Reno-friendly region
// and faster outside; RFC 9438 describes CUBIC alone. What limits a flow beside loss is not looked
// at: see [RateLimited] and [WindowLimited].
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
