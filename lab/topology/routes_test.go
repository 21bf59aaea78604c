// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"testing"

	"weir/lab/scenario"
	"weir/lab/traffic"
)

// star is a cell of hosts h0, h1, ... at one router, each with routes to every address of the
// others' links.
func star(hosts int) *scenario.Cell {
	cell := &scenario.Cell{Nodes: []scenario.Node{{Name: "hub", Router: true}}}
	for i := range hosts {
		cell.Nodes = append(cell.Nodes, scenario.Node{Name: fmt.Sprintf("h%d", i)})
		cell.Links = append(cell.Links, join(i, fmt.Sprintf("h%d", i), "hub"))
	}
	for i, from := range cell.Links {
		for j, to := range cell.Links {
			if i == j {
				continue
			}
			for _, a := range []netip.Prefix{to.AddressA4, to.AddressB4, to.AddressA6, to.AddressB6} {
				hop := from.AddressB4
				if a.Addr().Is6() {
					hop = from.AddressB6
				}
				cell.Routes = append(cell.Routes, scenario.Route{From: from.A, To: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Via: from.Name, Hop: hop.Addr()})
			}
		}
	}
	return cell
}

// joinedFor are the routes that a node of the cell gets.
func joinedFor(cell *scenario.Cell, name string) []scenario.Route {
	b := &builder{cell: cell, plan: planOf(cell)}
	return b.joined(name, b.routesOf(name), b.ecnDestinations(name))
}

func TestHostsOfAStarHaveOneRouteAFamily(t *testing.T) {
	cell := star(100)
	for _, node := range cell.Nodes[1:] {
		routes := joinedFor(cell, node.Name)
		if len(routes) != 2 {
			t.Fatalf("%s has %d routes: %v", node.Name, len(routes), routes)
		}
		for _, r := range cell.Routes {
			if r.From == node.Name && !routes[0].To.Contains(r.To.Addr()) && !routes[1].To.Contains(r.To.Addr()) {
				t.Errorf("%s has no route to %s any more", node.Name, r.To)
			}
		}
		if routes[0].To.Contains(netip.MustParseAddr("192.0.2.1")) || routes[1].To.Contains(netip.MustParseAddr("2001:db8::1")) {
			t.Errorf("%s would send over the lab what is outside of it: %v", node.Name, routes)
		}
	}
}

func TestRoutesThatCannotBeJoinedStay(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scenario.Cell)
		want   int // routes of h0; it has 4 addresses of each of 3 other links to reach
	}{
		{"as they are", func(*scenario.Cell) {}, 2},
		{"a router", func(c *scenario.Cell) { c.Nodes[1].Router = true }, 12},
		{"a host with a second link", func(c *scenario.Cell) { c.Links = append(c.Links, join(9, "h0", "hub")) }, 12},
		{"an address that it has no IPv4 route to", func(c *scenario.Cell) {
			for i, r := range c.Routes {
				if r.From == "h0" && r.To.Addr() == c.Links[2].AddressA4.Addr() {
					c.Routes = append(c.Routes[:i], c.Routes[i+1:]...)
					return
				}
			}
		}, 5 + 1},
		{"a destination with ECN", func(c *scenario.Cell) {
			c.Phases = []scenario.Phase{{Flows: []traffic.Flow{{From: "h0", To: "h2", ECN: true}}}}
		}, 2 + 2},
	} {
		cell := star(4)
		c.change(cell)
		if routes := joinedFor(cell, "h0"); len(routes) != c.want {
			t.Errorf("%s: %d routes, %d expected: %v", c.name, len(routes), c.want, routes)
		}
	}
}

// TestStarCarriesTraffic exchanges lines between hosts of a star, and with the router.
func TestStarCarriesTraffic(t *testing.T) {
	cell := star(5)
	topology := build(t, cell)
	for _, a := range []netip.Prefix{cell.Links[4].AddressA4, cell.Links[4].AddressA6} {
		exchange(t, topology.Nodes["h0"], topology.Nodes["h4"], a.Addr())
	}
	for _, a := range []netip.Prefix{cell.Links[3].AddressB4, cell.Links[3].AddressB6} {
		exchange(t, topology.Nodes["h1"], topology.Nodes["hub"], a.Addr())
	}
}
