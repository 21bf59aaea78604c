// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"weir/kernel/netns"
	"weir/lab/traffic"
)

// The kernel counts entries into fast recovery per namespace, not per connection (TcpExt in
// /proc/net/netstat). A flow that sends alone in its namespace may thus have exact counts; presence
// finds out whether it did.

// presence is one flow's time as a sender in a namespace.
type presence struct{ shared bool }

// senders knows which flows send from which namespace. The zero value is ready and safe for
// concurrent use.
type senders struct {
	mu     sync.Mutex
	active map[uint64][]*presence // by the namespace's inode; guarded by mu
}

func (s *senders) enter(inode uint64) *presence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		s.active = make(map[uint64][]*presence)
	}
	p := &presence{shared: len(s.active[inode]) > 0}
	for _, other := range s.active[inode] {
		other.shared = true
	}
	s.active[inode] = append(s.active[inode], p)
	return p
}

// leave ends a presence and says whether it was the only one in its namespace all the time.
func (s *senders) leave(inode uint64, p *presence) (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.active[inode][:0]
	for _, other := range s.active[inode] {
		if other != p {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(s.active, inode)
	} else {
		s.active[inode] = rest
	}
	return !p.shared
}

// recoveriesIn reads how often senders in ns have entered fast recovery since it was made.
func recoveriesIn(ns *netns.Namespace) (count uint64, err error) {
	err = ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/netstat")
		if err != nil {
			return fmt.Errorf("read recovery counters: %w", err)
		}
		count, err = parseRecoveries(text)
		return err
	})
	return count, err
}

// parseRecoveries adds TCPRenoRecovery and TCPSackRecovery of a netstat file: lines in pairs, names
// then values.
func parseRecoveries(text []byte) (uint64, error) {
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "TcpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		return sumRecoveries(names, fields)
	}
	return 0, fmt.Errorf("read recovery counters: no TcpExt in netstat")
}

func sumRecoveries(names, values [][]byte) (uint64, error) {
	var sum uint64
	found := 0
	for i, name := range names {
		if string(name) != "TCPRenoRecovery" && string(name) != "TCPSackRecovery" || i >= len(values) {
			continue
		}
		n, err := strconv.ParseUint(string(values[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read recovery counters: %w", err)
		}
		sum += n
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("read recovery counters: netstat does not have them")
	}
	return sum, nil
}

// apportion spreads an exact count of recoveries over streams by their retransmissions, so that it
// adds up, and adds each stream's own timeouts.
func apportion(streams []traffic.Stream, recoveries uint64, timeouts []uint64) {
	var weights, given, seen uint64
	for i := range streams {
		weights += streams[i].Retransmits
	}
	for i := range streams {
		seen += streams[i].Retransmits
		share := recoveries
		if weights > 0 {
			share = uint64(float64(recoveries) * float64(seen) / float64(weights))
		}
		if i == len(streams)-1 {
			share = recoveries
		}
		streams[i].LossEvents = share - given + timeouts[i]
		given = share
	}
}
