// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"weir/internal/wait"
	"weir/ix/rib"
	"weir/ix/session"
	"weir/ix/wire"
)

// feed is the internal session with BIRD. Weir dials and accepts; of two connections that of the
// higher BGP identifier stays (RFC 4271, section 6.8).
type feed struct {
	server *Server

	mu       sync.Mutex
	current  *session.Session // established; nil for none
	opening  *attempt         // behind its OPEN
	since    time.Time
	last     error     // end of the last session
	left     time.Time // of that end, or of the snapshot
	messages int
	addPath  [2]bool

	// columns of the current session by path identifier and family; guarded by engine.mu.
	columns map[uint32]rib.PortID
	former  []rib.PortID         // of complete former sessions and the snapshot
	partial []rib.PortID         // of the last session that ended before its End-of-RIB
	waiting map[wire.Family]bool // families without End-of-RIB
}

// attempt is a connection with a received OPEN.
type attempt struct {
	conn   net.Conn
	dialed bool
}

const dialTime = 5 * time.Second

// run dials until ctx ends.
func (f *feed) run(ctx context.Context) error {
	e := f.server.engine.exchange
	for {
		if f.idle() {
			dialer := net.Dialer{Timeout: dialTime, LocalAddr: &net.TCPAddr{IP: e.Feed.Local.AsSlice()}, ControlContext: f.server.feedControl}
			conn, err := dialer.DialContext(ctx, "tcp", f.server.endpoint(e.Feed.Bird))
			if err == nil {
				f.talk(ctx, conn, true)
			} else {
				f.note(err)
			}
		}
		if err := wait.For(ctx, f.server.options.Retry); err != nil {
			return nil
		}
	}
}

func (f *feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current == nil && f.opening == nil
}

func (f *feed) note(err error) {
	f.mu.Lock()
	f.last = err
	f.mu.Unlock()
}

// talk runs a session on a connection.
func (f *feed) talk(ctx context.Context, conn net.Conn, dialed bool) {
	session.LowLatency(conn)
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	a := &attempt{conn, dialed}
	s, err := session.Open(conn, session.Config{Open: f.open(), PeerAS: f.server.engine.exchange.AS, OpenWait: f.server.options.OpenWait, Buffer: 256 << 10,
		Accept: func(open *wire.Open) error { return f.claim(a, open) }})
	f.mu.Lock()
	if f.opening == a {
		f.opening = nil
	}
	if err != nil {
		f.last = err
		f.mu.Unlock()
		f.server.log.Info("feed: no session", "reason", err)
		return
	}
	if f.current != nil { // BIRD has restarted before Weir has seen the end of its session
		f.current.Close()
	}
	f.current, f.since, f.last = s, time.Now(), nil
	f.mu.Unlock()
	f.server.log.Info("feed: established", "dialed", dialed)
	f.begin(s)
	// Weir announces nothing. A restarted BIRD waits for End-of-RIB of each neighbor (RFC 4724).
	if err = s.Write(wire.AppendEndOfRIB(wire.AppendEndOfRIB(nil, families[0]), families[1])); err == nil {
		alive := make(chan struct{})
		go keepAlive(s, alive)
		err = f.receive(s)
		close(alive)
	}
	f.mu.Lock()
	mine := f.current == s
	if mine {
		f.current, f.last, f.left = nil, err, time.Now()
	}
	f.mu.Unlock()
	if mine {
		f.server.log.Info("feed: ended; its paths are kept", "for", f.server.engine.exchange.Choose.Stale, "reason", err)
		f.server.stale.Reset(f.server.engine.exchange.Choose.Stale)
	}
	s.Close()
}

// keepAlive sends KEEPALIVEs until end is closed.
func keepAlive(s *session.Session, end <-chan struct{}) {
	if s.Hold() == 0 {
		return
	}
	tick := time.NewTicker(s.KeepaliveTime() / 2)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
			if s.Keepalive() != nil {
				return // the reader ends the session
			}
		}
	}
}

// open is the OPEN to BIRD: path identifiers are received, and graceful restart is offered as
// helper (RFC 4724). BoRR and EoRR have no effect here, so enhanced refresh is not offered.
func (f *feed) open() wire.Open {
	o := f.server.own()
	o.EnhancedRefresh = false
	o.GracefulRestart = &wire.GracefulRestart{Time: 0}
	for _, family := range families {
		o.AddPath = append(o.AddPath, wire.AddPath{Family: family, Receive: true})
	}
	return o
}

var errCollision = &wire.Notification{Code: wire.CodeCease, Subcode: wire.CeaseCollision}

// claim decides between two connections behind the peer's OPEN.
func (f *feed) claim(a *attempt, open *wire.Open) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && a.dialed {
		return errCollision
	}
	if other := f.opening; other != nil && other.dialed != a.dialed {
		ours := f.server.engine.exchange.RouterID.Compare(open.ID) > 0 // ours is the higher identifier
		if a.dialed != ours {
			return errCollision
		}
		_ = other.conn.Close()
	}
	f.opening = a
	return nil
}

// begin prepares the table for the paths of a new session: the former ones stay until End-of-RIB.
func (f *feed) begin(s *session.Session) {
	x := f.server.engine
	x.mu.Lock()
	defer x.mu.Unlock()
	f.retire()
	f.waiting = map[wire.Family]bool{}
	for i, family := range families {
		if s.Peer.HasFamily(family) {
			f.waiting[family] = true
		}
		f.addPath[i] = sends(&s.Peer, family) // for the status
	}
}

// retire moves the columns of the current session to the former ones. Of the sessions without
// End-of-RIB only the last one's stay: otherwise a feed that breaks off again and again would fill
// the memory. The caller holds engine.mu.
func (f *feed) retire() {
	mine := slices.Collect(maps.Values(f.columns))
	switch {
	case len(f.waiting) == 0:
		f.former = append(f.former, mine...)
	case len(mine) > 0:
		f.server.engine.clear(f.partial)
		f.partial = mine
	}
	f.columns = map[uint32]rib.PortID{}
}

// forget withdraws the paths of former sessions. The caller holds engine.mu.
func (f *feed) forget() {
	f.server.engine.clear(append(f.former, f.partial...))
	f.former, f.partial = nil, nil
}

func sends(open *wire.Open, f wire.Family) bool {
	for _, a := range open.AddPath {
		if a.Family == f && a.Send {
			return true
		}
	}
	return false
}

// expire withdraws all paths of a feed that has been silent for too long.
func (f *feed) expire() {
	x := f.server.engine
	x.mu.Lock()
	defer x.mu.Unlock()
	// A session that is established from here on waits in begin.
	if !f.idle() { // a session, or the attempt of one
		f.server.stale.Reset(f.server.options.OpenWait)
		return
	}
	f.server.log.Warn("feed: silent for too long, its paths are withdrawn", "after", x.exchange.Choose.Stale)
	f.retire()
	f.forget()
	x.serve(true)
	f.server.saveSoon() // removes the snapshot
}

// contact returns the time until which the feed was there: now, or the end of the last session.
func (f *feed) contact() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		return time.Now()
	}
	return f.left
}

var errRetired = errors.New("replaced by a newer session")

// codingOf returns the coding of the feed's UPDATEs.
func codingOf(s *session.Session) wire.Coding {
	return wire.Coding{AS4: s.Peer.AS4, AddPathIPv4: sends(&s.Peer, families[0]), AddPathIPv6: sends(&s.Peer, families[1])}
}

// receive applies the messages of the feed, all that have arrived under one lock.
func (f *feed) receive(s *session.Session) error {
	x := f.server.engine
	decode := decoder{feed: f, coding: codingOf(s)}
	for {
		kind, body, err := s.Next()
		if err != nil {
			return err
		}
		x.mu.Lock()
		for n := 0; ; n++ {
			if !f.live(s) {
				x.mu.Unlock()
				return errRetired
			}
			if kind == wire.TypeUpdate {
				if err := decode.update(body); err != nil {
					x.mu.Unlock()
					var fault *wire.MessageError
					if errors.As(err, &fault) {
						s.End(&wire.Notification{Code: fault.Code, Subcode: fault.Subcode})
					}
					return err
				}
			}
			if n == 256 || !s.Ready() {
				break
			}
			if kind, body, err = s.Next(); err != nil {
				x.mu.Unlock()
				return err
			}
		}
		x.mu.Unlock()
	}
}

// live counts a message, and reports whether its session is the current one.
func (f *feed) live(s *session.Session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages++
	return f.current == s
}

// decoder applies UPDATEs to the table.
type decoder struct {
	feed    *feed
	coding  wire.Coding
	message wire.Update
	scratch []byte
}

// update applies one UPDATE. Its error ends the session. The caller holds engine.mu.
func (d *decoder) update(body []byte) error {
	f, x, u := d.feed, d.feed.server.engine, &d.message
	if err := u.Parse(body, d.coding); err != nil {
		return err
	}
	if family, end := u.EndOfRIB(); end {
		f.ended(family)
		return nil
	}
	x.counts.DiscardedAttrs += u.Discarded
	announced, reach := d.stored(u)
	if u.Fault != nil {
		x.counts.MalformedUpdates++
		f.server.log.Warn("feed: an UPDATE is treated as withdrawal", "reason", u.Fault)
	}
	d.withdraw(&u.Withdrawn)
	d.withdraw(&u.Unreach)
	d.announce(&u.Announced, announced, u.Fault != nil)
	d.announce(&u.Reach, reach, u.Fault != nil)
	return nil
}

// stored returns the attributes in stored form; u.Fault is set if they are faulty.
func (d *decoder) stored(u *wire.Update) (announced, reach wire.Attrs) {
	d.scratch = d.scratch[:0]
	if u.Fault == nil && !u.Announced.Empty() {
		d.scratch = u.AppendAnnounced(d.scratch)
		announced = wire.Attrs(d.scratch)
	}
	if u.Fault == nil && !u.Reach.Empty() {
		start := len(d.scratch)
		d.scratch = u.AppendReach(d.scratch)
		reach = wire.Attrs(d.scratch[start:])
	}
	for _, attrs := range []wire.Attrs{announced, reach} {
		if _, err := attrs.View(); err != nil && u.Fault == nil {
			u.Fault, _ = err.(*wire.AttrError)
		}
	}
	return announced, reach
}

func (d *decoder) withdraw(n *wire.NLRI) {
	x := d.feed.server.engine
	for prefix, id, ok := n.Next(); ok; prefix, id, ok = n.Next() {
		if column, known := d.feed.columns[id]; known {
			x.withdraw(prefix, column)
		}
	}
}

func (d *decoder) announce(n *wire.NLRI, attrs wire.Attrs, faulty bool) {
	if faulty {
		d.withdraw(n)
		return
	}
	x, f := d.feed.server.engine, d.feed
	view, _ := attrs.View()
	for prefix, id, ok := n.Next(); ok; prefix, id, ok = n.Next() {
		column, known := f.columns[id]
		if !known {
			var free bool
			if column, free = x.table.column(); !free {
				x.counts.TableFull++
				continue
			}
			f.columns[id] = column
		}
		x.set(prefix, column, attrs, &view)
	}
}

// ended handles an End-of-RIB of the feed. Behind the last one the paths of former sessions go, and
// members may receive End-of-RIB. The caller holds engine.mu.
func (f *feed) ended(family wire.Family) {
	if !f.waiting[family] {
		return
	}
	delete(f.waiting, family)
	if len(f.waiting) > 0 {
		return
	}
	x := f.server.engine
	if !x.open {
		f.server.log.Info("feed: complete", "paths", x.table.rib.Stats().Paths)
	}
	f.forget()
	x.serve(true)
	f.server.saveSoon()
}
