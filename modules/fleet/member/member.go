// SPDX-License-Identifier: Apache-2.0

// Package member is the host's side of a fleet: it makes reports, checks grants, and gives the rate
// and lease of each claim. Like package leader it is a state machine without clocks, network or
// goroutines.
//
// A grant is applied only if it answers a report of this process that is younger than the lease,
// comes from the newest known leader, and is newer than the applied grant. After the lease each
// claim has its floor: the last guarantee that a leader has admitted.
package member

import (
	"time"

	"weir/modules/fleet/wire"
)

// Member is the state of one host. It is not safe for concurrent use.
type Member struct {
	host    string
	boot    uint64
	epoch   uint64
	number  uint64 // of the last report
	applied uint64 // number of the last grant applied in this epoch
	sent    map[uint64]time.Time
	claims  []*Claim
}

// Claim is one direction of a scope that follows a shared limit.
type Claim struct {
	ID, Limit string
	Min, Max  float64 // bit/s
	Weight    int
	// Floor is the admitted guarantee, as saved by an earlier process; 0 at first.
	Floor float64
	// Rate is the granted rate until Until.
	Rate   float64
	Until  time.Time
	Reason string
}

// New returns the state of a host at start: each claim has its floor. boot is higher
// than that of any earlier process of the host.
func New(host string, boot uint64, claims []*Claim) *Member {
	for _, c := range claims {
		c.Rate = c.Floor
	}
	return &Member{host: host, boot: boot, claims: claims, sent: map[uint64]time.Time{}}
}

// Sample is the use of a claim since the last report.
type Sample struct {
	Used      float64 // bit/s
	Throttled bool
}

// Report makes the next report; it is to be sent at once. samples are by claim ID.
func (m *Member) Report(now time.Time, samples map[string]Sample) wire.Report {
	m.Expire(now)
	m.number++
	m.sent[m.number] = now
	for n, at := range m.sent {
		if now.Sub(at) > maxLease {
			delete(m.sent, n)
		}
	}
	r := wire.Report{Host: m.host, Boot: m.boot, Number: m.number, Epoch: m.epoch, Grant: m.applied}
	for _, c := range m.claims {
		s := samples[c.ID]
		r.Claims = append(r.Claims, wire.Claim{ID: c.ID, Limit: c.Limit, Min: c.Min, Max: c.Max, Weight: c.Weight,
			Rate: c.Rate, Floor: c.Floor, Used: s.Used, Throttled: s.Throttled})
	}
	return r
}

// maxLease bounds how long the times of reports are kept.
const maxLease = time.Minute

// Outcome is the effect of a grant.
type Outcome struct {
	Applied bool
	// Confirm asks for a report at once: the leader waits for it before it raises other hosts.
	Confirm bool
	// NewFloor asks to save the floors of the claims before the next report.
	NewFloor bool
}

// Grant processes a grant. If it is applied, the caller sets the rate of each claim.
func (m *Member) Grant(now time.Time, g wire.Grant) (o Outcome) {
	if g.Boot != m.boot || g.Epoch < m.epoch {
		return o
	}
	if g.Epoch > m.epoch { // a new leader: it learns the active rates from the next report
		m.epoch, m.applied = g.Epoch, 0
		o.Confirm = true
	}
	sent, there := m.sent[g.Answer]
	if !there || g.Number <= m.applied || len(g.Rates) == 0 || !now.Before(sent.Add(min(g.Lease, maxLease))) {
		return o
	}
	rates := map[string]wire.Rate{}
	for _, r := range g.Rates {
		rates[r.ID] = r
	}
	m.applied = g.Number
	o.Applied = true
	for _, c := range m.claims {
		r, there := rates[c.ID]
		if !there {
			continue
		}
		o.Confirm = o.Confirm || r.Rate < c.Rate
		if r.Floor != c.Floor {
			o.NewFloor, o.Confirm = true, true
		}
		c.Rate, c.Floor, c.Reason = r.Rate, r.Floor, r.Reason
		c.Until = sent.Add(g.Lease)
	}
	return o
}

// Expire gives each claim with an ended lease its floor, and returns those claims.
func (m *Member) Expire(now time.Time) (ended []*Claim) {
	for _, c := range m.claims {
		if !c.Until.IsZero() && !now.Before(c.Until) {
			c.Rate, c.Until = c.Floor, time.Time{}
			c.Reason = "no contact with a leader"
			ended = append(ended, c)
		}
	}
	return ended
}

// Epoch returns the newest known epoch; 0 before the first grant.
func (m *Member) Epoch() uint64 { return m.epoch }

// Claims returns the claims.
func (m *Member) Claims() []*Claim { return m.claims }
