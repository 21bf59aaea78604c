// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/lab/link"
)

// network holds for every pair of nodes the next link of the path.
type network struct {
	nodes []Node
	links []Link
	index map[string]int
	at    [][]int // links of a node
	// next[to][from] is from's link towards to, or none.
	next [][]int
	// fixed[to][from] is true if a route of the file sets this hop.
	fixed [][]bool
}

const none = -1

func newNetwork(c *Cell) *network {
	n := &network{nodes: c.Nodes, links: c.Links, index: make(map[string]int, len(c.Nodes)), at: make([][]int, len(c.Nodes))}
	for i, node := range n.nodes {
		n.index[node.Name] = i
	}
	for i, l := range n.links {
		a, b := n.index[l.A], n.index[l.B]
		n.at[a] = append(n.at[a], i)
		n.at[b] = append(n.at[b], i)
	}
	for to := range n.nodes {
		n.next = append(n.next, n.towards(to))
		n.fixed = append(n.fixed, make([]bool, len(n.nodes)))
	}
	return n
}

// towards computes shortest paths to a node by breadth-first search: fewest links first, then the
// file's order of links. Only routers forward.
func (n *network) towards(to int) []int {
	next := make([]int, len(n.nodes))
	for i := range next {
		next[i] = none
	}
	reached := make([]bool, len(n.nodes))
	reached[to] = true
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		here := queue[0]
		if here != to && !n.nodes[here].Router {
			continue
		}
		for _, l := range n.at[here] {
			if from := n.other(l, here); !reached[from] {
				reached[from] = true
				next[from] = l
				queue = append(queue, from)
			}
		}
	}
	return next
}

// other is the node at the far end of a link.
func (n *network) other(l, node int) int {
	if a := n.index[n.links[l].A]; a != node {
		return a
	}
	return n.index[n.links[l].B]
}

// hop is one step of a path: a link and its direction.
type hop struct {
	link    int
	reverse bool
}

// path returns the hops between two nodes, or false without a path.
func (n *network) path(from, to int) ([]hop, bool) {
	var hops []hop
	for from != to {
		l := n.next[to][from]
		if l == none || len(hops) > len(n.nodes) {
			return nil, false
		}
		hops = append(hops, hop{l, n.index[n.links[l].B] == from})
		from = n.other(l, from)
	}
	return hops, true
}

// direction returns the properties of a hop's link.
func (n *network) direction(h hop) *link.Direction {
	if h.reverse {
		return &n.links[h.link].Reverse
	}
	return &n.links[h.link].Forward
}

// delay is the sum of the delays of hops.
func (n *network) delay(hops []hop) (sum time.Duration) {
	for _, h := range hops {
		sum += n.direction(h).Delay
	}
	return sum
}

// route replaces the shortest path by a path of the file.
func (b *builder) route(r routeFile, path string) {
	n := b.network
	if !b.node(r.At("from"), path+".from", r.From) || !b.node(r.At("to"), path+".to", r.To) {
		return
	}
	if r.From == r.To {
		b.complain(r.At("to"), "", "%s: a route from %q to itself", path, r.From)
		return
	}
	here, to := n.index[r.From], n.index[r.To]
	visited := map[int]bool{here: true}
	for i, via := range r.Via {
		l := slices.IndexFunc(n.links, func(l Link) bool { return l.Name == via.Value })
		at := fmt.Sprintf("%s.via[%d]", path, i)
		name := n.nodes[here].Name
		switch {
		case l < 0:
			names := make([]string, len(n.links))
			for i, l := range n.links {
				names[i] = l.Name
			}
			b.complain(via.Place, "", "%s: there is no link %q%s", at, via.Value, nearest.Hint(via.Value, names))
			return
		case !slices.Contains(n.at[here], l):
			b.complain(via.Place, "name the links in order, from the sender on", "%s: link %q does not end at %q, where the path has come to", at, via.Value, name)
			return
		case here == to:
			b.complain(via.Place, "", "%s: the path has reached %q before this link", at, r.To)
			return
		case i > 0 && !n.nodes[here].Router:
			b.complain(via.Place, "declare it under routers", "%s: %q is a host and passes nothing on", at, name)
			return
		case n.fixed[to][here] && n.next[to][here] != l:
			b.complain(via.Place, "give a node one route to each destination", "%s: another route has %q send to %q over %q", at, name, r.To, n.links[n.next[to][here]].Name)
			return
		}
		n.next[to][here], n.fixed[to][here] = l, true
		here = n.other(l, here)
		if visited[here] {
			b.complain(via.Place, "", "%s: the path comes back to %q", at, n.nodes[here].Name)
			return
		}
		visited[here] = true
	}
	if here != to {
		b.complain(r.At("via"), "add the links up to the destination", "%s.via: the path ends at %q, not at %q", path, n.nodes[here].Name, r.To)
	}
}

// routes lists every hop of every pair of nodes, per address of the destination. It leaves out
// addresses that a link's own subnet already routes correctly.
func (n *network) routes() []Route {
	var all []Route
	for to := range n.nodes {
		for from := range n.nodes {
			via := n.next[to][from]
			if via == none {
				continue
			}
			hop4, hop6 := n.end(via, n.other(via, from))
			for _, l := range n.at[to] {
				if l == via && n.other(via, from) == to {
					continue
				}
				to4, to6 := n.end(l, to)
				all = append(all,
					Route{n.nodes[from].Name, netip.PrefixFrom(to4, 32), n.links[via].Name, hop4},
					Route{n.nodes[from].Name, netip.PrefixFrom(to6, 128), n.links[via].Name, hop6})
			}
		}
	}
	return all
}

// end returns a node's addresses on a link.
func (n *network) end(l, node int) (v4, v6 netip.Addr) {
	if n.links[l].A == n.nodes[node].Name {
		return n.links[l].AddressA4.Addr(), n.links[l].AddressA6.Addr()
	}
	return n.links[l].AddressB4.Addr(), n.links[l].AddressB6.Addr()
}

// queues sizes the queues that are given in bandwidth-delay products. Without a round-trip time in
// the file it uses the longest of any flow over the link, or the link's own if no flow crosses it.
func (b *builder) queues() {
	longest := b.roundTrips()
	for i, l := range b.file.Links {
		out := &b.cell.Links[i]
		if out.Plain {
			continue
		}
		for _, side := range []struct {
			own *override
			to  *link.Direction
		}{{l.Forward, &out.Forward}, {l.Reverse, &out.Reverse}} {
			q := merged(l.directionFile, side.own).Queue
			if q == nil || q.BDP == nil {
				continue
			}
			rtt, crossed := longest[i]
			if !crossed {
				rtt = out.Forward.Delay + out.Reverse.Delay
			}
			if q.RTT != nil {
				rtt = time.Duration(*q.RTT)
			}
			side.to.Queue.Bytes = max(product(side.to.Rate, rtt, *q.BDP), units.ByteSize(minBDP*(out.MTU+etherHeader)))
		}
	}
}

// roundTrips returns for each link the longest round trip, by delays only, of the flows that cross
// it in either direction.
func (b *builder) roundTrips() map[int]time.Duration {
	n, longest := b.network, map[int]time.Duration{}
	join := func(from, to string) {
		there, way := n.path(n.index[from], n.index[to])
		back, wayBack := n.path(n.index[to], n.index[from])
		if !way || !wayBack {
			return
		}
		rtt := n.delay(there) + n.delay(back)
		for _, h := range slices.Concat(there, back) {
			longest[h.link] = max(longest[h.link], rtt)
		}
	}
	for _, phase := range b.cell.Phases {
		for _, f := range phase.Flows {
			join(f.From, f.To)
		}
		for _, s := range phase.Streams {
			join(s.From, s.To)
		}
	}
	return longest
}
