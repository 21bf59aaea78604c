// SPDX-License-Identifier: Apache-2.0

// Package live reads the state of a router from the kernel of a namespace, and follows its changes.
package live

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"

	"weir/kernel/netns"
	"weir/kernel/packetfilter"
	"weir/kernel/routing"
	"weir/kernel/sysctl"
	"weir/modules/offload/state"
)

// Read returns the state of ns; nil is the calling thread's namespace.
func Read(ns *netns.Namespace) (*state.State, error) { return read(ns, routing.Everything) }

// ReadLinks returns the state of ns without routes and neighbours.
func ReadLinks(ns *netns.Namespace) (*state.State, error) {
	return read(ns, routing.Links|routing.Addresses)
}

func read(ns *netns.Namespace, kinds int) (*state.State, error) {
	s := state.New()
	err := routing.Dump(ns, kinds, func(e *routing.Event) {
		if e.Kind == routing.Restart {
			s = state.New()
			return
		}
		put(s, e)
	})
	if err != nil {
		return nil, err
	}
	s.SortRules()
	if s.Host, err = host(ns); err != nil {
		return nil, err
	}
	s.Filters, err = Filters(ns, s)
	return s, err
}

// Filters reads the packet filters of ns. s has the links.
func Filters(ns *netns.Namespace, s *state.State) (all []state.Filter, err error) {
	found, err := packetfilter.Read(ns)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		filter := state.Filter{Name: f.Name, IPv4: f.IPv4, IPv6: f.IPv6, Egress: f.Egress, To: f.To}
		if f.Device != "" {
			l, known := s.Find(f.Device)
			if !known {
				continue // removed since
			}
			filter.Link = l.Index
		}
		all = append(all, filter)
	}
	return all, nil
}

// host reads the settings of the namespace.
func host(ns *netns.Namespace) (h state.Host, err error) {
	read := func(key string) (int, error) {
		text, err := sysctl.Get(ns, key)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil // the kernel lacks it
		}
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(text)
	}
	forward6, err1 := read("net.ipv6.conf.all.forwarding")
	filter, err2 := read("net.ipv4.conf.all.rp_filter")
	hash, err3 := read("net.ipv4.fib_multipath_hash_policy")
	if err := errors.Join(err1, err2, err3); err != nil {
		return h, fmt.Errorf("read settings of forwarding: %w", err)
	}
	return state.Host{Forward6: forward6 != 0, RPFilter: filter, MultiHash: hash}, nil
}

// put applies an event to the state.
func put(s *state.State, e *routing.Event) {
	switch e.Kind {
	case routing.LinkEvent:
		putLink(s, &e.Link, e.Gone)
	case routing.AddressEvent:
		a := state.Address{Link: e.Address.Link, At: netip.PrefixFrom(e.Address.Local, e.Address.At.Bits())}
		if e.Gone {
			delete(s.Addresses, a)
		} else {
			s.Addresses[a] = true
		}
	case routing.NeighborEvent:
		at := state.Where{Link: e.Neighbor.Link, At: e.Neighbor.At}
		if e.Gone {
			delete(s.Neighbors, at)
		} else {
			s.Neighbors[at] = state.Neighbor{MAC: e.MAC, Valid: e.Valid(), Stale: e.Stale()}
		}
	case routing.RouteEvent:
		putRoute(s, e)
	case routing.RuleEvent:
		s.Rules = append(s.Rules, ruleOf(&e.Rule))
	}
}

func putLink(s *state.State, l *routing.Link, gone bool) {
	if gone {
		delete(s.Links, l.Index)
		return
	}
	s.Links[l.Index] = state.Link{Index: l.Index, Name: l.Name, Kind: l.Kind, MAC: state.MAC(l.MAC), MTU: int(l.MTU), MTU6: int(l.MTU6), Up: l.Up,
		Lower: l.Lower, Master: l.Master, Parent: l.Parent, VLAN: int(l.VLAN), Protocol: int(l.Protocol), Elsewhere: l.Elsewhere, Ethernet: l.Ethernet,
		Loopback: l.Loopback, Forward4: l.Forward4, RPFilter: int(l.RPFilter)}
}

func ruleOf(r *routing.Rule) state.Rule {
	return state.Rule{IPv6: r.IPv6, Priority: r.Priority, Action: r.Action, Table: r.Table, From: r.From, To: r.To, In: r.In, Out: r.Out,
		Suppress: r.SuppressLength, Inverted: r.Inverted, Other: r.Other}
}

func hopsOf(hops []routing.Hop, into []state.Hop) []state.Hop {
	into = into[:0]
	for _, h := range hops {
		into = append(into, state.Hop{Link: h.Link, Via: h.Via, Weight: h.Weight, Dead: h.Dead, Encap: h.Encap})
	}
	return into
}

func putRoute(s *state.State, e *routing.Event) {
	r := &e.Route
	if r.Cloned {
		return
	}
	var few [8]state.Hop
	hops := hopsOf(r.Hops, few[:0])
	route := state.Route{Type: r.Type, TOS: r.TOS, Metric: r.Metric, MTU: int(r.MTU), From: r.From}
	old, there := s.Get(r.Table, r.To, route)
	several := false
	if r.To.Addr().Is6() && there {
		several = !e.Gone && !e.Replace && len(hops) == 1 && !slices.Contains(s.Hops(old.Group), hops[0])
		hops = siblings(s.Hops(old.Group), hops, e)
		several = (several || old.Several && !e.Replace) && len(hops) > 1
	}
	if e.Gone && (r.To.Addr().Is4() || len(hops) == 0) {
		s.Drop(r.Table, r.To, route)
		return
	}
	if e.Gone && !there {
		return
	}
	route.Group, route.Several = s.GroupOf(hops), several
	s.Put(r.Table, r.To, route)
}

// siblings returns the hops of an IPv6 route after an event: the kernel reports those of one prefix
// and metric together or one by one.
func siblings(have, reported []state.Hop, e *routing.Event) []state.Hop {
	is := func(h state.Hop, list []state.Hop) bool {
		for _, other := range list {
			if h.Link == other.Link && h.Via == other.Via {
				return true
			}
		}
		return false
	}
	var all []state.Hop
	switch {
	case e.Gone:
		for _, h := range have {
			if !is(h, reported) {
				all = append(all, h)
			}
		}
		return all
	case e.Replace || len(reported) > 1:
		return append(all, reported...)
	}
	for _, h := range have {
		if !is(h, reported) {
			all = append(all, h)
		}
	}
	return append(all, reported...)
}
