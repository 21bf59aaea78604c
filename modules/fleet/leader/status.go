// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"maps"
	"slices"
	"time"
)

// Status describes the fleet as its leader sees it. Rates are in bit/s.
type Status struct {
	Epoch  uint64        `json:"epoch"`
	Limits []LimitStatus `json:"limits"`
	Hosts  []HostStatus  `json:"hosts"`
}

// LimitStatus is one shared limit, with the limits below it.
type LimitStatus struct {
	Name      string  `json:"name"`
	Parent    string  `json:"parent,omitempty"`
	Rate      float64 `json:"rate_bps"`
	Granted   float64 `json:"granted_bps"`   // sum of decided rates
	Committed float64 `json:"committed_bps"` // sum of the highest rates that hosts may use now
	Used      float64 `json:"used_bps"`      // as last reported
	Floors    float64 `json:"floors_bps"`    // sum of admitted guarantees
	Hosts     int     `json:"hosts"`         // in contact
}

// HostStatus is one claim of a host.
type HostStatus struct {
	Host      string        `json:"host"`
	Claim     string        `json:"claim"`
	Limit     string        `json:"limit"`
	Contact   bool          `json:"contact"`
	Silent    time.Duration `json:"silent_ns,omitempty"` // since the last report; 0 without one in this epoch
	Granted   float64       `json:"granted_bps"`
	Used      float64       `json:"used_bps"`
	Floor     float64       `json:"floor_bps"`
	Throttled bool          `json:"throttled"`
	Reason    string        `json:"reason,omitempty"` // why the floor is below the requested guarantee
}

// Status returns the state of all limits and hosts.
func (l *Leader) Status(now time.Time) Status {
	s := Status{Epoch: l.epoch, Limits: make([]LimitStatus, len(l.tree.limits)), Hosts: []HostStatus{}}
	for i, limit := range l.tree.limits {
		s.Limits[i] = LimitStatus{Name: l.tree.names[i], Rate: limit.Rate}
		if limit.Parent >= 0 {
			s.Limits[i].Parent = l.tree.names[limit.Parent]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		l.addHost(&s, l.hosts[name], now)
	}
	return s
}

func (l *Leader) addHost(s *Status, h *host, now time.Time) {
	live := h.live(now, l.lease)
	counted := map[int]bool{}     // limits that count the host
	limits := map[string]string{} // by claim
	for id, f := range h.floors {
		limits[id] = f.Limit
	}
	for id, c := range h.claims {
		limits[id] = c.Limit
	}
	for _, id := range slices.Sorted(maps.Keys(limits)) {
		floor := h.floors[id]
		row := HostStatus{Host: h.name, Claim: id, Limit: limits[id], Contact: live, Granted: floor.Rate, Floor: floor.Rate}
		if !h.heard.IsZero() {
			row.Silent = now.Sub(h.heard)
		}
		if c := h.claims[id]; c != nil {
			row.Floor, row.Reason = c.floor, c.reason
			if live {
				row.Granted, row.Used, row.Throttled = max(0, c.rate), c.Used, c.Throttled
			}
		}
		s.Hosts = append(s.Hosts, row)
		for at := l.tree.Index(row.Limit); at >= 0; at = l.tree.limits[at].Parent {
			sum := &s.Limits[at]
			sum.Granted, sum.Used, sum.Floors = sum.Granted+row.Granted, sum.Used+row.Used, sum.Floors+row.Floor
			sum.Committed += l.committed(now, h, id)
			if live && !counted[at] {
				counted[at] = true
				sum.Hosts++
			}
		}
	}
}
