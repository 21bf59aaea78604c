// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/modules/cc/internal/steps"
)

// rledbatModel is rLEDBAT in real numbers: ledbatModel for received bytes (RFC 9840, section 4). It
// follows a connection, computes the expected window of each step, and continues from the actual
// window, so that rounding errors do not add up.
type rledbatModel struct {
	ledbatModel
	phase               Phase
	window, saved       float64         // bytes
	next                uint32          // sequence number of the next byte
	minutes             []time.Duration // min. of each, or unknown
	last                []time.Duration // RTT samples
	inRound, wholeRound time.Duration   // min. RTT of this round, and of the last round with samples; or unknown
	srtt                time.Duration
	minute, round       uint32  // ticks: start
	came                float64 // bytes in this round
	rate                float64 // bytes/s in the round before
	measured            bool    // rate is valid
	until, began        uint32  // ticks
	held, recovering    float64 // bytes to come
	beyond              *uint32 // timestamp of the first segment beyond a hole
	lost                int     // in this round
	queueNow, queuePast bool    // a queue was measured since the last slowdown, and before it
}

const (
	tick    = 16384 * time.Nanosecond
	unknown = time.Duration(math.MaxInt64)
)

func since(now, then uint32) time.Duration { return time.Duration(now-then) * tick }

// segment is the size of a segment.
func segments(octets float64, ack steps.Ack) float64 { return octets / float64(ack.Mss) }

func newRledbatModel(m ledbatModel, ack steps.Ack) *rledbatModel {
	return &rledbatModel{ledbatModel: m, phase: SlowStart, window: 10 * float64(ack.Mss), next: ack.Next, minutes: []time.Duration{unknown}, minute: ack.Now, round: ack.Now,
		inRound: unknown, wholeRound: unknown}
}

// base and delay are those of RFC 6817, section 4.2, for RTT samples.
func (m *rledbatModel) base() (least time.Duration, known bool) {
	least = slices.Min(m.minutes)
	return least, least != unknown
}

func (m *rledbatModel) delay() time.Duration {
	base, known := m.base()
	if !known {
		return 0
	}
	return max(0, slices.Min(m.last)-base)
}

// standing is the standing queue: the smaller of the last round's min. RTT (RFC 9406, section 4.2)
// and the min. of the last four samples, beyond the base delay.
func (m *rledbatModel) standing() time.Duration {
	base, known := m.base()
	if !known || m.wholeRound == unknown {
		return 0
	}
	return min(m.delay(), max(0, m.wholeRound-base))
}

// remember adds an RTT sample.
func (m *rledbatModel) remember(ack steps.Ack) {
	if since(ack.Now, m.minute) >= 3662109*tick {
		m.minute = ack.Now
		m.minutes = append(m.minutes, unknown)
		m.minutes = m.minutes[max(0, len(m.minutes)-10):]
	}
	if ack.Rtt == 0 {
		return
	}
	rtt := time.Duration(ack.Rtt) * time.Microsecond
	now := len(m.minutes) - 1
	m.minutes[now] = min(m.minutes[now], rtt)
	m.inRound = min(m.inRound, rtt)
	m.last = append(m.last, rtt)
	m.last = m.last[max(0, len(m.last)-4):]
}

// limits reports whether the window limits the sender, and whether rounding may decide otherwise.
func (m *rledbatModel) limits(ack steps.Ack) (limited, close bool) {
	// Half of a few segments is hidden by delayed acknowledgments.
	if math.Floor(math.Floor(m.window)/2) < 2*float64(ack.Mss) {
		return true, false
	}
	most := math.Max(m.came, m.rate*m.srtt.Seconds())
	return most >= m.window/2, math.Abs(most-m.window/2) <= 2+most/1000
}

// again reports whether the new bytes are a retransmission.
func (m *rledbatModel) again(ack steps.Ack, octets float64) bool {
	is := m.beyond != nil && octets > 0 && int32(ack.Tsval-*m.beyond) > 0
	switch {
	case ack.Hole == 0:
		m.beyond = nil
	case m.beyond == nil:
		first := ack.Tsval
		m.beyond = &first
	}
	return is
}

// check compares a step with the model.
func (m *rledbatModel) check(step steps.Step) error {
	ack, after := step.Ack, step.State
	octets := float64(ack.Next - m.next)
	m.next = ack.Next
	m.held, m.recovering = math.Max(0, m.held-octets), math.Max(0, m.recovering-octets)
	m.remember(ack)
	m.srtt = time.Duration(after.Srtt) * time.Microsecond
	m.came += octets
	if took := since(ack.Now, m.round).Truncate(time.Microsecond); m.srtt > 0 && took >= m.srtt {
		m.rate, m.came, m.round, m.lost, m.measured = m.came/took.Seconds(), 0, ack.Now, 0, true
		if m.inRound != unknown {
			m.wholeRound, m.inRound = m.inRound, unknown
		}
	}
	if got := time.Duration(step.Delay) * time.Microsecond; got != m.delay() {
		return fmt.Errorf("the delay is %v, want %v", got, m.delay())
	}
	allowed := m.loss(ack, octets)
	base, known := m.base()
	if octets > 0 && known {
		allowed = m.move(ack, octets, base, allowed, step)
	}
	got := float64(after.Window) / 65536
	near := func(want float64) bool { return math.Abs(got-want) <= 3+want/10000 }
	if Phase(after.Phase) != m.phase || !slices.ContainsFunc(allowed, near) {
		return fmt.Errorf("phase %d with a window of %.2f octets, want phase %d with one of %.2f", after.Phase, got, m.phase, allowed)
	}
	saved := float64(after.Saved) / 65536
	if math.Abs(saved-m.saved) > 3 {
		return fmt.Errorf("the window before the slowdown is %.2f, want %.2f", saved, m.saved)
	}
	m.window, m.saved = got, saved
	return nil
}

// loss applies a loss to the window.
func (m *rledbatModel) loss(ack steps.Ack, octets float64) []float64 {
	if !m.again(ack, octets) {
		return []float64{m.window}
	}
	m.lost++
	if m.recovering > 0 {
		return []float64{m.window}
	}
	rest := m.rest(ack)
	if rest == m.window {
		return []float64{m.window}
	}
	m.recovering = float64(ack.Edge - ack.Next)
	switch m.phase {
	case Drain:
		m.saved /= 2
		return []float64{m.window}
	case SlowStart:
		m.until = ack.Now + 2*uint32(m.srtt/tick)
	case Climb:
		m.until = ack.Now + 9*(ack.Now-m.began)
	}
	m.phase, m.held = Avoidance, m.recovering
	m.window = math.Max(2*float64(ack.Mss), rest)
	return []float64{m.window}
}

// rest returns the window after a loss.
func (m *rledbatModel) rest(ack steps.Ack) float64 {
	base, known := m.base()
	rising := m.phase == SlowStart || m.phase == Climb
	switch {
	case !m.tolerant || !known:
		return m.window / 2
	case rising && m.standing() < m.target/4 && float64(m.lost-1) <= math.Floor(math.Floor(segments(m.window, ack))/16):
		return m.window
	case !m.queueNow && !m.queuePast:
		return m.window / 2
	case m.delay() == 0:
		return m.window // no queue
	}
	return math.Max(m.window/2, m.window*float64(base)/float64(base+m.delay()))
}

// move applies received bytes to the window.
func (m *rledbatModel) move(ack steps.Ack, octets float64, base time.Duration, allowed []float64, step steps.Step) []float64 {
	delay, least := m.delay(), 2*float64(ack.Mss)
	m.queueNow = m.queueNow || delay >= m.target/4
	limited, close := m.limits(ack)
	grown := func(limited bool, by func(float64) float64) float64 {
		gain := 0.0
		if limited {
			gain = m.gain(base)
		}
		return math.Max(least, m.window+by(gain))
	}
	either := func(by func(float64) float64) []float64 {
		if close {
			return []float64{grown(true, by), grown(false, by)}
		}
		return []float64{grown(limited, by)}
	}
	settle := func(least float64) []float64 {
		m.phase, m.held = Avoidance, float64(ack.Edge-ack.Next)
		if !m.explore {
			return allowed
		}
		m.recovering = m.held
		if !m.measured {
			return allowed
		}
		return []float64{math.Max(least, math.Min(m.window, m.rate*(base+m.target/2).Seconds()))}
	}
	// Possible bursts slow the growth to a quarter or stop it; a standing queue ends slow start.
	queue := delay
	if m.explore {
		queue = m.standing()
	}
	rise := func(above bool) []float64 {
		return either(func(gain float64) float64 {
			switch {
			case m.explore && delay > m.target:
				gain = 0
			case m.explore && (above || delay >= m.target/4):
				gain /= 4
			}
			return octets * gain
		})
	}
	switch m.phase {
	case SlowStart:
		if m.ends(queue) {
			m.until = ack.Now + 2*uint32(m.srtt/tick)
			return settle(least)
		}
		return rise(false)
	case Drain:
		if int32(ack.Now-m.until) >= 0 {
			m.phase = Climb
		}
	case Climb:
		above := m.window >= m.saved
		enough := above && (!m.explore || queue >= m.target/4)
		if m.ends(queue) || enough {
			m.until = ack.Now + 9*(ack.Now-m.began)
			if !m.ends(queue) {
				least = math.Max(least, m.saved)
			}
			return settle(least)
		}
		return rise(above)
	case Avoidance:
		if int32(ack.Now-m.until) >= 0 {
			m.phase, m.began, m.until = Drain, ack.Now, ack.Now+2*uint32(m.srtt/tick)
			m.saved, m.queuePast, m.queueNow = m.window, m.queueNow, false
			return []float64{least}
		}
		if m.held > 0 {
			return allowed
		}
		excess := math.Max(0, float64(delay)/float64(m.target)-1)
		return either(func(gain float64) float64 {
			return octets * math.Max(gain/math.Max(1, math.Floor(segments(m.window, ack)))-excess, -0.5)
		})
	}
	return allowed
}
