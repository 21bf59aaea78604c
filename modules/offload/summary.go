// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// Pins returns the folder of the fast path's pins below that of all modules.
func Pins(dir string) string { return filepath.Join(dir, moduleName) }

// ReadState reads the forwarding state of this host.
func ReadState() (*state.State, error) { return live.Read(nil) }

// Summary is the result of a plan, as weir offload plan prints it.
type Summary struct {
	Format      string         `json:"format"`
	Routes      int            `json:"routes"`
	Offloaded   int            `json:"offloaded"`
	Left        map[string]int `json:"left"` // routes left to the kernel, by reason
	NextHops    int            `json:"next_hops"`
	Prefixes    int            `json:"prefixes"`   // prefixes with another decision than the next shorter one
	Aggregated  int            `json:"aggregated"` // minimum number of prefixes with the same decisions
	Budget      *Choice        `json:"budget,omitempty"`
	Checked     int            `json:"checked,omitempty"`
	Differences []string       `json:"differences,omitempty"`
	Rules       []Rule         `json:"rules,omitempty"`
	Notes       []string       `json:"notes,omitempty"` // packets that filters keep with the kernel
}

// Choice is the result of the selection for a budget.
type Choice struct {
	Most     int    `json:"prefixes"`      // maximum of the table
	Prefixes int    `json:"prefixes_used"` // of the table, before aggregation
	Routes   int    `json:"routes"`        // candidates
	Chosen   int    `json:"routes_chosen"`
	Packets  uint64 `json:"packets"`        // counted; 0 selects the shortest prefixes
	Carried  uint64 `json:"packets_chosen"` // counted packets to selected routes
}

// Rule is a prefix and its treatment.
type Rule struct {
	To   netip.Prefix `json:"to"`
	Hops string       `json:"hops"` // "cpu: reason" for packets of the kernel
}

// Summarize makes a plan for a router. counted are packets by destination, for a budget; nil for
// none.
func Summarize(t *Treatment, s *state.State, counted map[netip.Addr]uint64, rules, prove bool) (Summary, error) {
	missing := plan.Missing(s, t.Policy())
	if !slices.ContainsFunc(t.From, func(name string) bool { return !slices.Contains(missing, name) }) {
		return Summary{}, fault.New(fault.Usage, "name an existing device in from, as listed by ip link", "offload: there is no device %s", missing[0])
	}
	p, err := planner(t, s)
	if err != nil {
		return Summary{}, err
	}
	if t.Budget > 0 {
		p.Choose(t.Budget, traffic(p, counted))
	}
	tally := p.Tally()
	out := Summary{Format: "weir-offload-plan/1", Routes: tally.Routes, Offloaded: tally.Offloaded, Left: map[string]int{}, Notes: leftOut(t, p)}
	for why, n := range tally.Left {
		out.Left[string(why)] = n
	}
	if c := p.Chosen(); t.Budget > 0 {
		out.Budget = &Choice{Most: c.Budget, Prefixes: c.Rules, Routes: c.Routes, Chosen: c.Chosen, Packets: c.Traffic, Carried: c.Carried}
	}
	for d := range p.Decisions() {
		if len(p.Next(plan.Decision(d)).Hops) > 0 {
			out.NextHops++
		}
	}
	for _, ipv6 := range []bool{false, true} {
		zero := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if ipv6 {
			zero = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		fewer := p.Aggregate(zero, plan.CPU)
		out.Prefixes, out.Aggregated = out.Prefixes+len(p.Plain(ipv6)), out.Aggregated+len(fewer)
		if rules {
			for _, e := range fewer {
				out.Rules = append(out.Rules, Rule{e.To, words(s, p.Next(e.Decision))})
			}
		}
	}
	if prove {
		out.prove(t, s, p)
	}
	return out, nil
}

// prove compares the plan with the simulator.
func (out *Summary) prove(t *Treatment, s *state.State, p *plan.Planner) {
	fib := simulate.New(s)
	fast := func(a netip.Addr) (all []simulate.Way) {
		for _, h := range p.Next(p.Lookup(a)).Hops {
			all = append(all, simulate.Way{Link: h.Link, Src: h.Src, Dst: h.Dst, Weight: h.Weight, MTU: h.MTU})
		}
		return all
	}
	found, looked, _ := fib.Check(simulate.Boundaries(simulate.Prefixes(s)), fast, fib.Expect(scope(t, s)), t.Budget > 0, maxDifferences)
	out.Checked = looked
	for _, d := range found {
		out.Differences = append(out.Differences, d.String())
	}
}

func words(s *state.State, n plan.Next) string {
	if len(n.Hops) == 0 {
		return "cpu: " + string(n.Why)
	}
	var all []string
	for _, h := range n.Hops {
		all = append(all, fmt.Sprintf("%s to %s", s.Links[h.Link].Name, h.Dst))
	}
	return strings.Join(all, ", ")
}

// Line is a row of the printed table.
type Line struct {
	What   string
	Routes int
}

// Lines returns the number of routes by treatment, in descending order.
func (out Summary) Lines() []Line {
	var all []Line
	for why, n := range out.Left {
		all = append(all, Line{"left to the kernel: " + why, n})
	}
	slices.SortFunc(all, func(a, b Line) int { return cmp.Or(b.Routes-a.Routes, strings.Compare(a.What, b.What)) })
	return append([]Line{{"offloaded", out.Offloaded}}, all...)
}

// Words returns the text below the table.
func (out Summary) Words() string {
	text := fmt.Sprintf("%d routes are %d prefixes with a decision of their own, %d aggregated, and %d next hops.", out.Routes, out.Prefixes, out.Aggregated, out.NextHops)
	if b := out.Budget; b != nil {
		text += fmt.Sprintf("\nThe budget of %d prefixes has room for %d of %d routes, ", b.Most, b.Chosen, b.Routes)
		if b.Packets > 0 {
			text += fmt.Sprintf("to which %.1f %% of %d packets go.", 100*float64(b.Carried)/float64(b.Packets), b.Packets)
		} else {
			text += "the shortest first: no packets are counted yet."
		}
	}
	if out.Checked > 0 {
		text += fmt.Sprintf("\nAt %d boundary addresses %d differences from the kernel's routing were found.", out.Checked, len(out.Differences))
	}
	for _, n := range out.Notes {
		text += "\n" + n
	}
	for _, d := range out.Differences {
		text += "\n" + d
	}
	return text
}

// Document returns the verdict as weir offload verify prints it.
type Document struct {
	Format      string   `json:"format"`
	Holds       bool     `json:"holds"`
	Expired     bool     `json:"expired,omitempty"` // the lease has ended: the kernel forwards everything
	Addresses   int      `json:"addresses"`
	Forwarded   int      `json:"forwarded"`
	Packets     int      `json:"packets"`
	Sent        int      `json:"sent"`
	Differences []string `json:"differences"`
	Notes       []string `json:"notes,omitempty"` // packets that filters keep with the kernel
}

// Document is the verdict as weir offload verify prints it.
func (v Verdict) Document() Document {
	d := Document{Format: "weir-offload-verify/1", Holds: v.Holds(), Expired: v.Expired, Addresses: v.Addresses, Forwarded: v.Forwarded, Packets: v.Packets, Sent: v.Sent, Differences: []string{}, Notes: v.Left}
	for _, one := range v.Differences {
		d.Differences = append(d.Differences, one.String())
	}
	for _, one := range v.Wrong {
		d.Differences = append(d.Differences, one.String())
	}
	return d
}
