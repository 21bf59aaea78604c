// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"weir/ix/config"
	"weir/ix/session"
	"weir/ix/wire"
)

// member is an established session with a member.
//
// Its writer sends, in this order: the group's stream, then one chunk of the table,
// then End-of-RIB. A chunk is made when the member has read the whole stream, so the order of
// stream and chunks is that of the changes.
type member struct {
	config  *config.Member
	address netip.Addr
	terms   terms
	session *session.Session
	group   *group
	since   time.Time

	cursor uint64        // number of the next block; guarded by the stream's mu
	wake   chan struct{} // there may be something to send
	asked  chan wire.Family

	// Of the writer:
	next    uint32        // chunk
	refresh []wire.Family // families between BoRR and EoRR
	marked  bool          // End-of-RIB is sent; until then BoRR has no effect

	sent, routes atomic.Int64 // bytes sent; UPDATEs received, ignored
	synced       atomic.Bool  // the table is sent
	dumping      atomic.Bool  // chunks are left to send; written by the writer
}

// notify wakes the writer; it never blocks.
func (m *member) notify() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// maxWrite bounds the blocks of one write, in bytes.
const maxWrite = 256 << 10

// pending returns the unread blocks of the stream, which the caller must not change. behind is true
// if the member missed some.
func (m *member) pending() (block []byte, behind bool) {
	s := &m.group.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.cursor < s.first {
		m.cursor = s.head()
		return nil, true
	}
	for i := m.cursor - s.first; i < uint64(len(s.blocks)) && (len(block) == 0 || len(block)+len(s.blocks[i]) <= maxWrite); i++ {
		if len(block) == 0 {
			block = s.blocks[i][:len(s.blocks[i]):len(s.blocks[i])] // a later append copies
		} else {
			block = append(block, s.blocks[i]...)
		}
		m.cursor++
	}
	return block, false
}

// current reports whether the member has read the whole stream.
func (m *member) current() bool {
	s := &m.group.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.cursor == s.head()
}

// errBehind ends the session of a member that is slower than the backlog and cannot receive the
// table again without a new session.
var errBehind = errors.New("the member is slower than the changes of the table")

// write sends messages until the session ends.
func (x *engine) write(m *member, stop <-chan struct{}) error {
	for {
		block, behind := m.pending()
		again := false
		if !behind && len(block) == 0 {
			block, again, behind = x.rows(m)
		}
		if behind {
			if block = m.again(m.families()...); block == nil {
				return errBehind
			}
			x.mu.Lock()
			x.counts.Resynchronized++
			x.mu.Unlock()
		}
		if len(block) > 0 {
			if err := m.session.Write(block); err != nil {
				return err
			}
			m.sent.Add(int64(len(block)))
			continue
		}
		if again {
			continue
		}
		select {
		case <-m.wake:
		case f := <-m.asked:
			if block := m.again(f); block != nil {
				if err := m.session.Write(block); err != nil {
					return err
				}
			}
		case <-stop:
			return nil
		}
	}
}

// families returns the negotiated families.
func (m *member) families() (all []wire.Family) {
	for i, f := range families {
		if m.terms.limits[i] > 0 {
			all = append(all, f)
		}
	}
	return all
}

// again starts the table from its first row. With enhanced route refresh (RFC 7313) it returns the
// BoRR of the families, so that the member drops the paths that the table lacks; otherwise nil.
// Before End-of-RIB it is nil too: members ignore a BoRR there (RFC 7313, section 4).
func (m *member) again(all ...wire.Family) (messages []byte) {
	m.next = 0
	m.dumping.Store(true)
	if !m.session.Peer.EnhancedRefresh || !m.marked {
		return nil
	}
	for _, f := range all {
		messages = wire.AppendRefresh(messages, f, wire.RefreshBegin)
		if !slices.Contains(m.refresh, f) {
			m.refresh = append(m.refresh, f)
		}
	}
	return messages
}

// rows returns the next messages: the rest of the stream, then a chunk of the table, then the ends
// of refreshes and End-of-RIB. The batch is flushed before, so that a chunk has no state between
// two differences. One call makes one chunk, and again is true if there may be more: others need
// the lock between chunks. behind is that of [member.pending].
func (x *engine) rows(m *member) (block []byte, again, behind bool) {
	if !m.dumping.Load() && m.marked {
		return nil, false, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.open || !m.dumping.Load() && !x.complete && len(m.refresh) == 0 {
		return nil, false, false
	}
	x.flush()
	if block, behind = m.pending(); behind || !m.current() {
		return block, true, behind
	}
	if m.dumping.Load() {
		chunk, more := x.chunk(m.group, m.next)
		m.next++
		if more {
			if len(block) == 0 {
				return chunk[:len(chunk):len(chunk)], true, false
			}
			return append(block, chunk...), true, false
		}
		m.dumping.Store(false)
		m.group.tidy()
	}
	m.synced.Store(true)
	for _, f := range m.refresh {
		block = wire.AppendRefresh(block, f, wire.RefreshEnd)
	}
	m.refresh = nil
	if x.complete && !m.marked {
		for _, f := range m.families() {
			block = wire.AppendEndOfRIB(block, f)
		}
		m.marked = true
	}
	return block, false, false
}

// read reads the member's messages. Its routes are ignored and counted.
func (x *engine) read(m *member) error {
	coding := wire.Coding{AS4: m.session.Peer.AS4}
	for {
		kind, body, err := m.session.Next()
		if err != nil {
			return err
		}
		switch kind {
		case wire.TypeUpdate:
			u, err := wire.ParseUpdate(body, coding)
			if _, end := u.EndOfRIB(); err == nil && end {
				continue
			}
			m.routes.Add(1)
			x.mu.Lock()
			x.counts.MemberRoutes++
			if err != nil || u.Fault != nil {
				x.counts.BadMemberUpdates++
			}
			x.mu.Unlock()
		case wire.TypeRouteRefresh:
			f, subtype, err := wire.ParseRefresh(body)
			if err == nil && subtype == wire.RefreshRequest && slices.Contains(m.families(), f) {
				select {
				case m.asked <- f:
				default: // a request waits already: the table follows it
				}
			}
		}
	}
}
