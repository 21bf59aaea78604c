// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
)

// choose selects the peer with most octets since the last choice. Without one that may be measured,
// the rate is at most [Unmeasured].
func (s *steering) choose(now time.Time) {
	s.chosen = now
	best := s.busiest()
	if isElsewhere(s.path) {
		s.closeEchoes()
		s.holdUnmeasured()
		return
	}
	if !best.IsValid() || best == s.peer && s.echoes != nil {
		return
	}
	s.closeEchoes()
	opened, err := openEchoes(best, s.class, uint16(rand.Uint32()), s.replies)
	if err != nil {
		s.holdUnmeasured()
		return
	}
	s.echoes, s.peer, s.heard = opened, best, now
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	if len(s.octets) > 4096 {
		clear(s.octets)
	}
	if s.known[best] == nil {
		s.known[best] = newController(now.Sub(s.began))
	}
	s.now = s.known[best]
}

// busiest is the peer with most octets since the last call, or the former one. Multicast, broadcast
// and link-local addresses have no path to measure.
func (s *steering) busiest() (best netip.Addr) {
	var key datagramsDatagramsPeer
	var total, most uint64
	best = s.peer
	for all := s.objects.DatagramsPeers.Iterate(); all.Next(&key, &total); {
		peer := key.addr()
		if n := total - min(total, s.octets[peer]); n > most && peer.IsGlobalUnicast() {
			most, best = n, peer
		}
		s.octets[peer] = total
	}
	return best
}

// holdUnmeasured sets the rate without echo replies.
func (s *steering) holdUnmeasured() {
	rate := Unmeasured
	if s.now != nil {
		rate = min(rate, s.now.rate)
	}
	_ = s.limit(rate, burst(rate))
}

// isElsewhere reports whether a process of a cgroup has another network namespace than this
// process: its peers have other paths, or none, and it has no right to echo requests from here.
func isElsewhere(path string) bool {
	own, err := os.Readlink("/proc/thread-self/ns/net") // a main thread may have entered another one
	if err != nil {
		return true
	}
	processes, err := cgroup.Cgroup{Path: path}.AllProcesses()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for _, pid := range processes {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil || ns != own {
			return true
		}
	}
	return false
}

// addr is the address.
func (p datagramsDatagramsPeer) addr() netip.Addr {
	var octets [16]byte
	for i, word := range p.Address {
		binary.NativeEndian.PutUint32(octets[4*i:], word)
	}
	if [12]byte(octets[:12]) == [12]byte{} {
		return netip.AddrFrom4([4]byte(octets[12:]))
	}
	return netip.AddrFrom16(octets)
}
