// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"sync"

	"weir/ix/choose"
	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/wire"
)

// engine turns routes of the feed into messages of groups. Nothing is stored per member and
// prefix: a group's former set follows from the former paths, since the choice is a function.
//
//	feed -> apply (touch: the former paths) -> flush: former set, new set, difference -> stream
//
// Lock order: engine.mu, stream.mu.
type engine struct {
	exchange *config.Exchange

	mu     sync.Mutex // guards all below, and the chunks of groups
	table  *table
	rules  choose.Rules
	ports  *choose.Ports
	all    []choose.Port // with their drained state
	groups map[string]*group
	unit   uint32 // rows of a chunk

	open     bool // tables are sent: the feed or a snapshot is complete
	complete bool // the feed has sent its End-of-RIB: so may Weir
	version  uint64

	touched map[netip.Prefix]former
	order   []netip.Prefix
	arena   []path
	wake    chan struct{} // a flush is due

	after       []path
	before, now []sent
	counts      Counts
}

// former is the former paths of a prefix, in the arena, and its former row, 0 for none.
type former struct {
	start, end int
	row        uint32
}

// maxTouched bounds the prefixes of a batch, and so the memory of their former paths.
const maxTouched = 8192

// chunkRows is the rows that a member receives as a unit.
const chunkRows = 4096

// maxChunks bounds the encoded rows kept for other members of a group, in bytes.
const maxChunks = 32 << 20

// Counts are events by reason.
type Counts struct {
	UnknownMember    int `json:"unknown_member"`     // connections from addresses of no member
	UnknownNextHop   int `json:"unknown_next_hop"`   // paths with the next hop of no port
	NoExport         int `json:"no_export"`          // paths with NO_EXPORT, NO_ADVERTISE or NO_EXPORT_SUBCONFED (RFC 1997)
	WrongNextHop     int `json:"wrong_next_hop"`     // paths with a next hop of the other address family
	MalformedUpdates int `json:"malformed_updates"`  // UPDATEs treated as withdrawals (RFC 7606)
	DiscardedAttrs   int `json:"discarded_attrs"`    // attributes ignored (RFC 7606)
	TooLarge         int `json:"too_large"`          // choices without a path, its attributes exceed a message
	Refused          int `json:"refused"`            // member connections that ended before they were established
	MemberRoutes     int `json:"member_routes"`      // UPDATEs of members, ignored
	Resynchronized   int `json:"resynchronized"`     // members too slow for the backlog that received the table again
	TableFull        int `json:"table_full"`         // paths beyond the numbers of the table
	BadMemberUpdates int `json:"bad_member_updates"` // malformed UPDATEs of members, ignored
}

func newEngine(e *config.Exchange, drained map[string]bool) (*engine, error) {
	x := &engine{exchange: e, table: newTable(e), rules: e.Rules(), all: drainedPorts(e, drained), groups: map[string]*group{}, unit: chunkRows,
		touched: map[netip.Prefix]former{}, wake: make(chan struct{}, 1)}
	var err error
	x.ports, err = choose.NewPorts(x.all)
	return x, err
}

// drainedPorts returns the ports with their drained state: that of the file, or of an order for the
// sponsor ("orange") or the port ("orange/ber1").
func drainedPorts(e *config.Exchange, orders map[string]bool) []choose.Port {
	all := e.Ports()
	for i := range all {
		p := &all[i]
		p.Drained = p.Drained || orders[p.Sponsor] || orders[p.Sponsor+"/"+p.Name]
	}
	return all
}

// touch notes the former paths of a prefix before its first change in a batch.
func (x *engine) touch(p netip.Prefix) {
	if !x.open || len(x.groups) == 0 {
		return
	}
	if _, is := x.touched[p]; is {
		return
	}
	start := len(x.arena)
	x.arena = x.table.paths(p, x.arena)
	row, _ := x.table.rib.RowOf(p)
	x.touched[p] = former{start, len(x.arena), row}
	x.order = append(x.order, p)
	x.spoil(p)
}

// spoil removes encoded rows that a change makes wrong.
func (x *engine) spoil(p netip.Prefix) {
	row, ok := x.table.rib.RowOf(p)
	if !ok {
		return
	}
	for _, g := range x.groups {
		g.forget(row / x.unit)
	}
}

func (g *group) forget(chunk uint32) {
	if block, is := g.chunks[chunk]; is {
		g.size -= len(block)
		delete(g.chunks, chunk)
	}
}

// set sets a path of the feed. The caller holds mu.
func (x *engine) set(p netip.Prefix, column rib.PortID, attrs wire.Attrs, view *wire.View) {
	var reason *int
	if _, known := x.table.hops[view.NextHop]; !known {
		reason = &x.counts.UnknownNextHop
	} else if view.NextHop.Is4() != p.Addr().Is4() {
		reason = &x.counts.WrongNextHop
	} else if view.Communities.Internal() {
		reason = &x.counts.NoExport
	}
	if reason != nil {
		*reason++
		x.withdraw(p, column)
		return
	}
	x.touch(p)
	if err := x.table.rib.Set(p, column, attrs); err != nil {
		x.counts.TableFull++
		x.table.rib.Withdraw(p, column) // the former path is no longer that of the feed
	}
	x.changed()
}

// withdraw removes a path of the feed. The caller holds mu.
func (x *engine) withdraw(p netip.Prefix, column rib.PortID) {
	if x.table.rib.Path(p, column) == 0 {
		return
	}
	x.touch(p)
	x.table.rib.Withdraw(p, column)
	x.changed()
}

// changed counts a change. It flushes a full batch at once, and has a smaller batch flushed soon.
func (x *engine) changed() {
	x.version++
	if len(x.order) >= maxTouched {
		x.flush()
	} else if len(x.order) > 0 {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// flush emits the differences of the batch. The caller holds mu.
func (x *engine) flush() {
	if len(x.order) == 0 {
		return
	}
	changes := map[*group]*change{}
	for _, p := range x.order {
		f := x.touched[p]
		x.after = x.table.paths(p, x.after[:0])
		x.spoil(p)
		row, _ := x.table.rib.RowOf(p)
		moved := f.row != 0 && row != 0 && row != f.row
		x.differ(changes, p, x.arena[f.start:f.end], x.after, moved)
	}
	x.emit(changes)
	clear(x.touched)
	clear(x.arena)
	x.order, x.arena = x.order[:0], x.arena[:0]
}

// differ adds the differences of a prefix in all groups. A prefix that has moved to another row is
// announced even if its paths are equal: its new row may be in a chunk that a member has already.
func (x *engine) differ(changes map[*group]*change, p netip.Prefix, before, after []path, moved bool) {
	if !moved && equal(before, after) {
		return
	}
	for _, g := range x.groups {
		x.before, x.now = g.set(p, before, x.before[:0]), g.set(p, after, x.now[:0])
		x.add(changes, g, p, moved)
	}
}

// add adds the difference of before and now; with all set, all paths of now.
func (x *engine) add(changes map[*group]*change, g *group, p netip.Prefix, all bool) {
	c := changes[g]
	if c == nil {
		c = &change{}
		changes[g] = c
	}
	c.compare(p, x.before, x.now, all)
}

func (x *engine) emit(changes map[*group]*change) {
	for g, c := range changes {
		if block := g.encode(nil, c); len(block) > 0 {
			g.stream.append(block)
		}
	}
}

// equal reports whether two lists of paths are the same, in any order.
func equal(a, b []path) bool {
	if len(a) != len(b) {
		return false
	}
next:
	for i := range a {
		if same(a[i].attrs, b[i].attrs) {
			continue
		}
		for j := range b {
			if a[i].Tie == b[j].Tie && same(a[i].attrs, b[j].attrs) {
				continue next
			}
		}
		return false
	}
	return true
}

// sweep calls f for all rows, with a flush after each chunk: the memory of a large change stays
// bounded. The caller holds mu.
func (x *engine) sweep(f func(row uint32)) {
	for row := uint32(1); row < x.table.rib.Rows(); row++ {
		f(row)
		if len(x.order) >= maxTouched {
			x.flush()
		}
	}
	x.flush()
}

// clear withdraws the paths of columns and makes the columns spare. The caller holds mu.
func (x *engine) clear(columns []rib.PortID) {
	x.flush()
	if len(columns) == 0 {
		return
	}
	gone := map[rib.PortID]bool{}
	for _, c := range columns {
		gone[c] = true
	}
	var paths []rib.Path
	x.sweep(func(row uint32) {
		prefix, all, ok := x.table.rib.Row(row, paths[:0])
		if paths = all; !ok {
			return
		}
		for _, p := range all {
			if gone[p.Port] {
				x.touch(prefix)
				x.table.rib.Withdraw(prefix, p.Port)
				x.version++
			}
		}
	})
	x.table.spare = append(x.table.spare, columns...)
}

// drain sets the orders for sponsors and ports.
func (x *engine) drain(orders map[string]bool) error {
	all := drainedPorts(x.exchange, orders)
	ports, err := choose.NewPorts(all)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flush()
	x.all, x.ports = all, ports
	old := map[*group]*choose.Selection{}
	for _, g := range x.groups {
		old[g] = g.selection
		g.selection, g.ports = ports.Selection(x.rules, g.member), ports
		g.chunks, g.size = map[uint32][]byte{}, 0
	}
	if !x.open {
		return nil
	}
	changes := map[*group]*change{}
	for row := uint32(1); row < x.table.rib.Rows(); row++ {
		prefix, paths, ok := x.table.rowPaths(row, x.after[:0])
		x.after = paths
		if ok {
			for g, before := range old {
				now := g.selection
				g.selection = before
				x.before = g.set(prefix, paths, x.before[:0])
				g.selection = now
				x.now = g.set(prefix, paths, x.now[:0])
				x.add(changes, g, prefix, false)
			}
		}
		if row%x.unit == 0 {
			x.emit(changes)
			clear(changes)
		}
	}
	x.emit(changes)
	return nil
}

// chunk returns the messages of a group's paths in the rows of a chunk. The caller holds mu. more
// is false behind the last row.
func (x *engine) chunk(g *group, number uint32) (block []byte, more bool) {
	if number*x.unit >= x.table.rib.Rows() {
		return nil, false
	}
	if block, have := g.chunks[number]; have {
		return block, true
	}
	var c change
	for row := number * x.unit; row < (number+1)*x.unit; row++ {
		prefix, paths, ok := x.table.rowPaths(row, x.after[:0])
		if x.after = paths; !ok {
			continue
		}
		x.now = g.set(prefix, paths, x.now[:0])
		for i := range x.now {
			c.announce(prefix, &x.now[i], i)
		}
	}
	block = g.encode(nil, &c)
	if g.size+len(block) > maxChunks {
		g.chunks, g.size = map[uint32][]byte{}, 0
	}
	g.chunks[number] = block
	g.size += len(block)
	return block, true
}

// join adds a member to its group. The member's stream starts with changes after this call.
func (x *engine) join(m *member, t terms) {
	chosen := x.exchange.Chosen(m.config)
	key := keyOf(chosen, t)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flush() // a batch's differences precede the member
	g := x.groups[key]
	if g == nil {
		g = &group{key: key, member: chosen, selection: x.ports.Selection(x.rules, chosen), ports: x.ports, out: t.out, limits: t.limits, chunks: map[uint32][]byte{}}
		g.stream.members = map[*member]struct{}{}
		x.groups[key] = g
	}
	g.stream.mu.Lock()
	m.group, m.cursor = g, g.stream.head()
	g.stream.members[m] = struct{}{}
	g.stream.mu.Unlock()
	m.dumping.Store(true)
	x.share()
}

// share divides the backlog among the groups. The caller holds mu.
func (x *engine) share() {
	for _, g := range x.groups {
		g.stream.mu.Lock()
		g.stream.limit = max(minBacklog, maxBacklog/len(x.groups))
		g.stream.mu.Unlock()
	}
}

// leave removes a member from its group, and the group with its last member.
func (x *engine) leave(m *member) {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := m.group
	g.stream.mu.Lock()
	delete(g.stream.members, m)
	last := len(g.stream.members) == 0
	g.stream.mu.Unlock()
	if last && x.groups[g.key] == g {
		x.counts.TooLarge += g.tooLarge
		delete(x.groups, g.key)
		x.share()
		return
	}
	g.tidy()
}

// serve starts to send tables; done also allows End-of-RIB. The caller holds mu.
func (x *engine) serve(done bool) {
	x.flush()
	x.open = true
	x.complete = x.complete || done
	for _, g := range x.groups {
		g.stream.mu.Lock()
		for m := range g.stream.members {
			m.notify()
		}
		g.stream.mu.Unlock()
	}
}
