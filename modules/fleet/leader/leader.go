// SPDX-License-Identifier: Apache-2.0

// Package leader decides the rates of a fleet's hosts. It is a state machine without clocks,
// network or goroutines: the caller passes the time, saves memberships and sends grants, so that
// the same code runs in production, in the simulator and in tests.
//
// Invariant: at every moment the committed rates of a limit add up to at most its rate, unless an
// operator has just lowered it. The committed rate of a claim is the highest that its host may use
// now: the highest of the reported rate, all granted rates that the host has not confirmed, and its
// floor. A raise waits until committed rates have fallen: lowered grants are confirmed by the
// host's next report, or end with the host's lease.
//
// Pitfalls: a Leader is not safe for concurrent use. A new leader knows no committed rates; until
// each registered host has reported in its epoch, or one lease has passed, it raises nothing.
package leader

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"weir/modules/fleet/alloc"
	"weir/modules/fleet/wire"
)

// Leader holds the state of all hosts.
type Leader struct {
	epoch   uint64
	lease   time.Duration
	started time.Time
	tree    Tree
	hosts   map[string]*host
}

// host is one member of the fleet.
type host struct {
	name     string
	boot     uint64
	known    bool                 // has reported in this epoch
	heard    time.Time            // receipt of the last report
	last     time.Time            // the same, of this epoch
	number   uint64               // of the last report
	answered uint64               // number of the last answered report
	granted  uint64               // number of the last grant
	applied  uint64               // number of the last grant that the host has applied
	sent     []sent               // grants that the host has not confirmed
	active   map[string]wire.Rate // the last applied grant; nil before the first, and after a lease
	until    time.Time            // end of the last grant's lease; zero before the first
	claims   map[string]*claim
	floors   map[string]Floor // as saved, or to be saved
	version  int              // of floors
	saved    int
}

// sent is a grant that a host may apply at any moment.
type sent struct {
	number uint64
	at     time.Time
	rates  map[string]wire.Rate
}

type claim struct {
	wire.Claim
	limit  int // index in the tree; -1 if unknown
	floor  float64
	reason string
	rate   float64 // last decided
}

// New returns a leader for an epoch, with the saved members. lease is the length of grants.
func New(now time.Time, epoch uint64, lease time.Duration, tree Tree, members []Member) *Leader {
	l := &Leader{epoch: epoch, lease: lease, started: now, tree: tree, hosts: map[string]*host{}}
	for _, m := range members {
		l.hosts[m.Host] = &host{name: m.Host, floors: maps.Clone(m.Floors), claims: map[string]*claim{}}
	}
	return l
}

// Epoch returns the leader's epoch.
func (l *Leader) Epoch() uint64 { return l.epoch }

// Report processes a report. A report with a higher epoch is ignored: if there is a newer leader,
// this one loses its lease in the store, and a host must not be able to depose it.
func (l *Leader) Report(now time.Time, r wire.Report) {
	if r.Epoch > l.epoch {
		return
	}
	h := l.hosts[r.Host]
	if h == nil {
		h = &host{name: r.Host, claims: map[string]*claim{}}
		l.hosts[r.Host] = h
	}
	if r.Boot != h.boot { // the new process has set its floors, and rejects grants to the old one
		if r.Boot < h.boot && now.Before(h.heard.Add(oldBoot)) {
			return // a late report of an older process
		}
		*h = host{name: h.name, boot: r.Boot, claims: map[string]*claim{}, floors: h.floors, version: h.version, saved: h.saved}
	}
	if r.Number <= h.number {
		return // out of order
	}
	h.number, h.heard = r.Number, now
	if r.Epoch < l.epoch { // may still apply grants of the former leader
		return
	}
	if !now.Before(h.until) {
		h.sent, h.active = nil, nil // their leases have ended: the host rejects them
	}
	h.known, h.last = true, now
	h.confirm(min(r.Grant, h.granted))
	l.update(h, r)
}

// confirm forgets the grants before the one that the host has applied.
func (h *host) confirm(applied uint64) {
	h.applied = max(h.applied, applied)
	h.sent = slices.DeleteFunc(h.sent, func(s sent) bool {
		if s.number == h.applied {
			h.active = s.rates
		}
		return s.number <= h.applied
	})
}

// update takes over the claims of a report.
func (l *Leader) update(h *host, r wire.Report) {
	stays := make(map[string]bool, len(r.Claims))
	for _, c := range r.Claims {
		stays[c.ID] = true
		have := h.claims[c.ID]
		if have == nil {
			have = &claim{rate: -1}
			h.claims[c.ID] = have
		}
		have.Claim = c
		have.limit = l.tree.Index(c.Limit)
	}
	maps.DeleteFunc(h.claims, func(id string, _ *claim) bool { return !stays[id] })
	l.admit(h)
}

// live reports whether the lease of the host's last grant may still run.
func (h *host) live(now time.Time, lease time.Duration) bool {
	return h.known && now.Before(h.last.Add(lease+lease/guardDivisor))
}

// oldBoot is the time after which a lower boot is a host that has lost its files, and no longer a
// late report.
const oldBoot = time.Minute

// guardDivisor is the share of a lease added for clocks of different speed.
const guardDivisor = 50

// committed returns the highest rate that the host may use for a claim now. Reports are not
// trusted: after the grants of the former leader have ended, a host has at most its saved floor and
// the grants of this leader.
func (l *Leader) committed(now time.Time, h *host, id string) float64 {
	most, c := h.held(id), h.claims[id]
	if c == nil || !h.known {
		return most
	}
	if !l.settled(now) && h.active == nil && c.limit >= 0 {
		most = max(most, min(c.Rate, l.tree.limits[c.limit].Rate))
	}
	if !now.Before(h.until) {
		return most
	}
	if r, there := h.active[id]; there {
		most = max(most, min(c.Rate, max(r.Rate, r.Floor)))
	}
	for _, s := range h.sent {
		most = max(most, s.rates[id].Rate)
	}
	return most
}

// stubborn reports whether a host confirms no grant. It gets none until its lease has ended, so
// that it does not keep a rate from others.
func (l *Leader) stubborn(now time.Time, h *host) bool {
	return len(h.sent) > 0 && now.Sub(h.sent[0].at) > l.lease
}

// held returns the highest floor that the host may fall back to now: floors are saved before they
// are granted.
func (h *host) held(id string) float64 {
	c := h.claims[id]
	if c == nil || !h.known {
		return h.floors[id].Rate
	}
	most := min(c.Floor, h.floors[id].Rate)
	if r, there := h.active[id]; there {
		most = min(most, r.Floor)
	}
	for _, s := range h.sent {
		most = max(most, s.rates[id].Floor)
	}
	return most
}

// Outgoing is a grant for one host.
type Outgoing struct {
	Host  string
	Grant wire.Grant
}

// Decide allocates the rates anew and returns the grants to send: to hosts with changed rates, and
// to those that have reported since their last grant.
func (l *Leader) Decide(now time.Time) []Outgoing {
	part := l.division(now)
	target := alloc.WithSpare(l.tree.limits, part.claims)
	raised := alloc.Fill(part.free, part.raises(target))
	var out []Outgoing
	changed := map[*host]bool{}
	for i, p := range part.places {
		if p.claim == nil {
			continue
		}
		rate := target[i]
		if committed := part.committed[i]; rate > committed {
			rate = committed + raised[i]
		}
		rate = math.Floor(rate)
		if differs(rate, p.claim.rate) {
			p.claim.rate = rate
			changed[p.host] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		h := l.hosts[name]
		if h.boot == 0 || h.version != h.saved || h.number == h.answered && !changed[h] || l.stubborn(now, h) {
			continue
		}
		out = append(out, Outgoing{name, l.grant(now, h)})
	}
	return out
}

// differs reports whether a rate differs enough to send a grant before the host's next report.
func differs(a, b float64) bool { return math.Abs(a-b) > max(a, b)/50 }

// grant makes the next grant of a host.
func (l *Leader) grant(now time.Time, h *host) wire.Grant {
	h.answered = h.number
	g := wire.Grant{Epoch: l.epoch, Boot: h.boot, Answer: h.number, Lease: l.lease}
	if !h.known {
		return g
	}
	h.granted++
	g.Number = h.granted
	rates := make(map[string]wire.Rate, len(h.claims))
	for _, id := range slices.Sorted(maps.Keys(h.claims)) {
		c := h.claims[id]
		r := wire.Rate{ID: id, Rate: max(c.rate, 0), Floor: c.floor, Reason: c.reason}
		if held := h.held(id); r.Rate < r.Floor && held < r.Floor { // other hosts have not made way yet
			r.Floor = held
		}
		g.Rates, rates[id] = append(g.Rates, r), r
	}
	h.sent = append(h.sent, sent{g.Number, now, rates})
	h.until = h.last.Add(l.lease + l.lease/guardDivisor)
	return g
}

// Remove removes a host that no longer reports, and its floors.
func (l *Leader) Remove(now time.Time, name string) error {
	h := l.hosts[name]
	switch {
	case h == nil:
		return fmt.Errorf("the fleet has no host %s", name)
	case h.live(now, l.lease) || l.settling(now):
		return fmt.Errorf("host %s is in contact: remove its shared limits first, or stop its daemon", name)
	}
	delete(l.hosts, name)
	return nil
}

// settled reports whether the grants of the former leader have ended.
func (l *Leader) settled(now time.Time) bool {
	return !now.Before(l.started.Add(l.lease + l.lease/guardDivisor))
}

// settling reports whether hosts may still use grants of the former leader that this one does not
// know.
func (l *Leader) settling(now time.Time) bool {
	if l.settled(now) {
		return false
	}
	for _, h := range l.hosts {
		if !h.known {
			return true
		}
	}
	return false
}
