// SPDX-License-Identifier: Apache-2.0

// Package choose orders the paths of a prefix for a member of an exchange, so that the first N of
// them are good, diverse and spread over the sponsors' ports.
//
// The order is a function of the prefix, its paths and the exchange file alone. Two servers
// therefore choose alike, a restart changes nothing, and the first N of the order are a subset of
// the first N+1.
//
// A step decides only between paths that are equal in all steps before it:
//
//  1. Consent: a sponsor's `only` and a member's `without` remove paths.
//  2. Rank: paths of drained ports and with GRACEFUL_SHUTDOWN (RFC 8326) last; higher LOCAL_PREF;
//     ports in the member's place; AS-path length, with all lengths up to the shortest plus the
//     tolerance equal.
//  3. Diversity: a sponsor not chosen yet, then a second AS not chosen yet.
//  4. Weighted rendezvous hash of prefix and port, by the port's rate. In the first position each
//     AS hop above the shortest path multiplies the weight by 2/5 if the shortest has three hops or
//     more. Paths of one and two hops exist at few ports: there the longer paths spread the load.
//     The weight depends only on paths of the set, so the loss of any other path changes nothing.
//
// With [Spread] the shortest path of the first rank takes the second position unless it has the
// first, so that each set of two or more has it (as RFC 7911 expects of the best path).
//
// Pitfalls: the hash identifies a port by its names, so renaming a port moves its share. A
// [Selection] has scratch memory and serves one goroutine.
package choose

import (
	"fmt"
	"math"
	"net/netip"
)

// Prefer selects the path in the first position.
type Prefer string

// Values of Prefer.
const (
	Spread   Prefer = "spread"   // the first of the hash within the tolerance
	Shortest Prefer = "shortest" // the first of the hash among the shortest paths
)

// MaxPorts bounds the ports of an exchange: a path identifier has 16 bits for their tags.
const MaxPorts = 1 << 16

// Port is a sponsor's port. Sponsor and Name together identify it.
type Port struct {
	Sponsor, Name string
	Rate          uint64 // bit/s; the weight of the hash
	Place         string // "" for none
	Drained       bool   // its paths come last
}

// Rules are the settings of an exchange.
type Rules struct {
	Tolerance int  // AS hops above the shortest path that count as equal
	Diverse   bool // prefer second ASes not chosen yet
	Prefer    Prefer
}

// Path is one path of a prefix.
type Path struct {
	Tie       uint64 // a digest of the attributes; orders several paths of one port
	Second    uint32 // first AS of the path that is not the sponsor's; 0 for none
	LocalPref uint32 // of the route server; 100 if it has none
	Port      uint16 // number of the port
	Length    uint16 // AS hops (RFC 4271, section 9.1.2.2: an AS_SET counts 1)
	Shutdown  bool   // community GRACEFUL_SHUTDOWN (RFC 8326)
	Hop       uint8  // number of the next hop among the port's addresses; not part of the order
}

// Ports are the ports of an exchange, prepared for the hash. They are safe for concurrent use.
type Ports struct {
	ports    []Port
	sponsors []int    // number of the sponsor, by port
	seeds    []uint64 // by port
	tags     []uint16 // by port
}

// NewPorts prepares ports. A port without rate or more than [MaxPorts] are an error.
func NewPorts(ports []Port) (*Ports, error) {
	if len(ports) > MaxPorts {
		return nil, fmt.Errorf("%d ports, more than %d", len(ports), MaxPorts)
	}
	p := &Ports{ports: ports}
	numbers := map[string]int{}
	for _, port := range ports {
		if port.Rate < minRate {
			return nil, fmt.Errorf("port %s/%s: rate %d bit/s is below %d", port.Sponsor, port.Name, port.Rate, minRate)
		}
		if _, known := numbers[port.Sponsor]; !known {
			numbers[port.Sponsor] = len(numbers)
		}
		p.sponsors = append(p.sponsors, numbers[port.Sponsor])
		p.seeds = append(p.seeds, seed(port.Sponsor, port.Name))
	}
	p.tags = tags(ports, p.seeds)
	return p, nil
}

// Member holds the settings of a member.
type Member struct {
	Place  string // "" for none
	Barred []bool // by port: the sponsor or the member does not consent; nil for none
}

// Selection orders paths for one member. Create one with [Ports.Selection].
type Selection struct {
	rules Rules
	ports *Ports
	bars  []bool
	far   []bool // by port: in another place than the member
	rest  []candidate
	first uint16 // longer of the first chosen path
	one   bool   // all candidates are of one class
}

// candidate is a path with consent, and its keys of the order. Less is better for each key.
type candidate struct {
	rank    uint64 // class, AS hops above the tolerance, repeats
	cost    uint64 // of the hash, weighted by length in the first position
	hash    uint64 // cost by the port's rate alone
	second  uint32
	longer  uint16 // AS hops above the shortest path of the class
	path    int32
	sponsor int32
}

// A rank has the class (34 bits), AS hops (16 bits) and repeats (2 bits).
const (
	hopsShift  = 2
	classShift = hopsShift + 16

	secondTaken  = 1 // the second AS is chosen already
	sponsorTaken = 2
)

// Selection returns the selection for a member.
func (p *Ports) Selection(rules Rules, member Member) *Selection {
	c := &Selection{rules: rules, ports: p, bars: member.Barred, far: make([]bool, len(p.ports))}
	if c.bars == nil {
		c.bars = make([]bool, len(p.ports))
	}
	for i, port := range p.ports {
		c.far[i] = member.Place != "" && port.Place != member.Place
	}
	return c
}

// Choose appends the indexes of the best n paths to into, best first, and returns it. Key is the
// prefix, or for a small member its covering prefix.
func (c *Selection) Choose(key netip.Prefix, paths []Path, n int, into []int) []int {
	c.candidates(key, paths)
	for taken := 0; len(c.rest) > 0 && taken < n; taken++ {
		at := c.next(paths, taken)
		v := c.rest[at]
		into = append(into, int(v.path))
		c.rest[at] = c.rest[len(c.rest)-1]
		c.rest = c.rest[:len(c.rest)-1]
		c.repeat(v)
		if taken == 0 {
			c.first = v.longer
		}
	}
	return into
}

// Steady reports whether the paths of the last Choose, if they are two or more, stay chosen when
// other paths are lost. It is false if paths differ in a rank above the length.
func (c *Selection) Steady() bool { return c.one }

// candidates fills rest with the paths that have consent.
func (c *Selection) candidates(key netip.Prefix, paths []Path) {
	c.rest = c.rest[:0]
	digest := digest(key)
	for i := range paths {
		if p := &paths[i]; !c.bars[p.Port] {
			c.rest = append(c.rest, candidate{rank: c.class(p) << classShift, hash: cost(mix(digest^c.ports.seeds[p.Port]), c.ports.ports[p.Port].Rate),
				path: int32(i), sponsor: int32(c.ports.sponsors[p.Port]), second: p.Second})
		}
	}
	c.window(paths)
}

// class packs the criteria that precede the path length into a number; a lower number is better.
func (c *Selection) class(p *Path) uint64 {
	class := uint64(^p.LocalPref) << 1
	if p.Shutdown || c.ports.ports[p.Port].Drained {
		class |= 1 << 33
	}
	if c.far[p.Port] {
		class |= 1
	}
	return class
}

// window adds the AS hops above the shortest path of the class, and their cost.
func (c *Selection) window(paths []Path) {
	c.one = true
	for i := range c.rest {
		c.one = c.one && c.rest[i].rank == c.rest[0].rank
	}
	var shortest uint16
	for i := range c.rest {
		v := &c.rest[i]
		if i == 0 || !c.one {
			shortest = c.shortest(paths, v.rank>>classShift)
		}
		v.longer = paths[v.path].Length - shortest
		v.rank |= uint64(max(0, int(v.longer)-c.rules.Tolerance)) << hopsShift
		v.cost = longerCost(v.hash, v.longer, shortest)
	}
}

// shortest returns the shortest length in a class.
func (c *Selection) shortest(paths []Path, class uint64) uint16 {
	shortest := uint16(math.MaxUint16)
	for i := range c.rest {
		if v := &c.rest[i]; v.rank>>classShift == class {
			shortest = min(shortest, paths[v.path].Length)
		}
	}
	return shortest
}

// next returns the position in rest of the next path.
func (c *Selection) next(paths []Path, taken int) int {
	// The shortest path comes first or, if the first is longer, second.
	if taken == 0 && c.rules.Prefer == Shortest || taken == 1 && c.first > 0 {
		return c.least(paths, func(v *candidate) uint64 {
			return v.rank>>classShift<<classShift | uint64(v.longer)<<hopsShift | v.rank&3
		})
	}
	return c.least(paths, func(v *candidate) uint64 { return v.rank })
}

// least returns the position of the candidate with the least rank, cost, and content.
func (c *Selection) least(paths []Path, rank func(*candidate) uint64) int {
	best, least := 0, rank(&c.rest[0])
	for i := 1; i < len(c.rest); i++ {
		v, b := &c.rest[i], &c.rest[best]
		r := rank(v)
		if r < least || r == least && (v.cost < b.cost || v.cost == b.cost && less(&paths[v.path], &paths[b.path])) {
			best, least = i, r
		}
	}
	return best
}

// repeat marks the candidates that repeat the sponsor or the second AS of a chosen path.
func (c *Selection) repeat(chosen candidate) {
	for i := range c.rest {
		v := &c.rest[i]
		v.cost = v.hash
		if v.sponsor == chosen.sponsor {
			v.rank |= sponsorTaken
		}
		if c.rules.Diverse && v.second == chosen.second && v.second != 0 {
			v.rank |= secondTaken
		}
	}
}

// less orders paths that are equal in every step: paths of one port, and paths of two ports with
// equal hashes.
func less(a, b *Path) bool {
	switch {
	case a.Port != b.Port:
		return a.Port < b.Port
	case a.Length != b.Length:
		return a.Length < b.Length
	case a.Second != b.Second:
		return a.Second < b.Second
	}
	return a.Tie < b.Tie
}
