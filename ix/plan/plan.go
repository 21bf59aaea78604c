// SPDX-License-Identifier: Apache-2.0

// Package plan computes the paths of each member, the load of each port and the effects of a
// failure, from an exchange file and MRT files, without a running server.
//
// Loads are shares of traffic, not rates. Without measured traffic each prefix and each member has
// an equal part, so a share is a share of prefixes.
//
// Pitfall: the memory of members' routers is an estimate from the measured bytes per path of three
// daemons ([Daemons]); hardware routers differ.
package plan

import (
	"net/netip"

	"weir/ix/choose"
	"weir/ix/config"
)

// Options select the parts of a plan.
type Options struct {
	Paths    int      // overrides the number of paths of each member; 0 keeps them
	Without  string   // SPONSOR or SPONSOR/PORT that fails; "" for none
	Failures bool     // all sponsors fail, one after the other; not with Without
	Traffic  *Traffic // nil: each prefix counts the same
}

// Plan is the document of weir ix plan --format json.
type Plan struct {
	Format   string    `json:"format"`
	RIB      RIB       `json:"rib"`
	Unplaced *Unplaced `json:"unplaced"`
	Notes    []string  `json:"notes,omitempty"`
	Traffic  *Traffic  `json:"traffic,omitempty"`
	Members  []Member  `json:"members"`
	Ports    []Port    `json:"ports"`
	Spread   Spread    `json:"spread"`
	Without  *Failure  `json:"without,omitempty"`
	Failures []Failure `json:"failures,omitempty"` // of each sponsor
}

// RIB has the sizes of the table of all sponsors.
type RIB struct {
	Paths         int   `json:"paths"`
	Prefixes      int   `json:"prefixes"`
	AttributeSets int   `json:"attribute_sets"`
	Bytes         int64 `json:"bytes"` // memory in Weir
}

// Member is the plan of one member. Before is the state without Weir: all paths of all sponsors
// that serve the member.
type Member struct {
	Name     string            `json:"name"`
	Before   int               `json:"before"` // paths
	After    int               `json:"after"`  // paths
	Limit    int               `json:"paths"`  // per prefix
	Prefixes Families          `json:"prefixes"`
	Omitted  int               `json:"omitted,omitempty"` // more-specifics left out for a small member
	Max      Families          `json:"max_prefix"`        // limit that the sessions need; it counts paths
	Memory   map[string]Beside `json:"memory"`            // bytes by daemon
	Length   float64           `json:"first_length"`      // mean AS hops of the first path
	Shortest float64           `json:"shortest_length"`   // mean AS hops of the shortest path
	Distinct float64           `json:"second_as_distinct"`
	Failure  *MemberFailure    `json:"without,omitempty"`
}

// Families has a value for each address family.
type Families struct {
	IPv4 int `json:"ipv4"`
	IPv6 int `json:"ipv6"`
}

// Beside is a value without and with Weir.
type Beside struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Port is the load of one port: shares of the traffic of all members.
type Port struct {
	Sponsor string  `json:"sponsor"`
	Port    string  `json:"port"`
	Rate    uint64  `json:"rate"`        // bit/s
	Share   float64 `json:"share"`       // members use their first path
	All     float64 `json:"share_all"`   // members use all of their paths
	Today   float64 `json:"share_today"` // a route server that sends one shortest path
	Load    float64 `json:"load"`        // share, relative to the port's share of all rates
	// Without a failed port:
	Failure    *float64 `json:"share_without,omitempty"`
	FailureAll *float64 `json:"share_all_without,omitempty"`
}

// Spread is the load of the busiest port, relative to its share of all rates: 1 is even.
type Spread struct {
	First float64 `json:"first"` // members use their first path
	All   float64 `json:"all"`   // members use all of their paths
	Today float64 `json:"today"` // a route server that sends one shortest path
}

// Failure is the effect of a failed sponsor or port.
type Failure struct {
	Name      string  `json:"name"`
	Lost      int     `json:"lost"`          // paths of the failed ports at members
	Announced int     `json:"announced"`     // new paths to members
	Displaced int     `json:"displaced"`     // paths of other ports that leave a set, for length or diversity
	Dark      int     `json:"prefixes_lost"` // prefixes of members without any path left
	First     float64 `json:"first"`         // load of the busiest port as in Spread, after the failure
	All       float64 `json:"all"`
}

// MemberFailure is the effect of a failure on a member.
type MemberFailure struct {
	Lost      int `json:"lost"`
	Announced int `json:"announced"`
	Displaced int `json:"displaced"`
	Moved     int `json:"first_moved"` // prefixes with another first path
	Dark      int `json:"prefixes_lost"`
}

// Compute makes a plan. An unknown sponsor or port is a fault of status Usage.
func Compute(e *config.Exchange, t *Table, o Options) (*Plan, error) {
	if o.Paths > 0 {
		changed := *e
		changed.Members = append([]config.Member(nil), e.Members...)
		for i := range changed.Members {
			changed.Members[i].Paths = o.Paths
		}
		e = &changed
	}
	ports, err := choose.NewPorts(e.Ports())
	if err != nil {
		return nil, err
	}
	scenarios, err := o.scenarios(e)
	if err != nil {
		return nil, err
	}
	all := groups(e)
	tallies := t.tallies(e, ports, all, scenarios, o.Traffic)
	p := &Plan{Format: "weir-ix-plan/1", Unplaced: &t.Unplaced, Notes: t.Notes, Traffic: o.Traffic}
	s := t.RIB.Stats()
	p.RIB = RIB{s.Paths, s.Prefixes, s.AttributeSets, s.Bytes}
	p.members(e, all, tallies)
	p.ports(e, all, tallies)
	p.fail(e, all, tallies, scenarios, o.Without != "")
	return p, nil
}

// tallies chooses all paths of all groups.
func (t *Table) tallies(e *config.Exchange, ports *choose.Ports, all []*group, scenarios []scenario, traffic *Traffic) (sums []*tally) {
	n, count := workers(), len(e.Ports())
	every := make([][]*worker, n)
	covers := false
	for i := range every {
		for _, g := range all {
			w := &worker{group: g, tally: newTally(count, len(scenarios)), selection: ports.Selection(e.Rules(), g.choice)}
			for _, s := range scenarios {
				choice := g.choice
				choice.Barred = append([]bool(nil), choice.Barred...)
				for port := range s.lost {
					choice.Barred[port] = choice.Barred[port] || s.lost[port]
				}
				w.losses = append(w.losses, loss{s.lost, ports.Selection(e.Rules(), choice)})
			}
			every[i] = append(every[i], w)
			covers = covers || g.small
		}
	}
	weight := func(netip.Prefix) uint64 { return 1 }
	if traffic != nil {
		weight = traffic.weights(t)
	}
	t.each(n, covers, weight, func(worker int, r *row) {
		for _, w := range every[worker] {
			w.row(r)
		}
	})
	for i := range all {
		sum := newTally(count, len(scenarios))
		for worker := range every {
			sum.add(every[worker][i].tally)
		}
		sums = append(sums, sum)
	}
	return sums
}
