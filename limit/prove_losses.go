// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"math"

	"weir/internal/room"
)

const (
	// againMost is the share of octets that TCP may send again. CUBIC and Reno probe for the rate by
	// losses, which on the paths of a limit are some per mille; a hundredth is ten times that, and
	// beyond it a flow 10 ms away cannot reach 15 Mbit/s (Mathis et al. 1997).
	againMost = 0.01
	// smallMost is the share of small packets that may be lost: the bound of ITU-T Y.1541 for all
	// classes that have one.
	smallMost = 0.001
	// chance is how many standard deviations beyond the bound a count must lie to be no accident.
	chance = 2
)

// judgeLosses compares what users lose with what they bear; "" where that is more.
func judgeLosses(l room.Losses, c room.Circumstances, busy float64) (room.Verdict, string) {
	why := tooMuch(l)
	switch {
	case why == "":
		return "", ""
	case busy > busyLimit:
		return room.CannotSay, fmt.Sprintf("%s, and the processors were busy for %.0f %% of the time; free them", why, 100*busy)
	case c.Unknown != "":
		return room.CannotSay, why + ", and nothing shows what the path loses without the limit: " + c.Unknown
	case tooMuch(c.Losses) != "":
		return room.CannotSay, why + "; and without the limit " + tooMuch(c.Losses)
	}
	return room.Loses, why
}

// tooMuch says what of it is more than users bear; "" for nothing.
func tooMuch(l room.Losses) string {
	expected := smallMost * float64(l.Sent)
	switch {
	case l.Again > againMost:
		return fmt.Sprintf("%.1f %% of what TCP sent was sent again, of which 1 %% holds", 100*l.Again)
	case float64(l.Lost) > expected+chance*math.Sqrt(expected):
		return fmt.Sprintf("%d of %d small packets were lost, of which 0.1 %% hold", l.Lost, l.Sent)
	}
	return ""
}
