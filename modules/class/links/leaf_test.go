// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// flows sends so many datagrams to one address by each of so many sockets of another, with an id at
// the front.
func (s *stage) flows(t *testing.T, id byte, from, to [4]byte, sockets, each int) {
	t.Helper()
	data := make([]byte, size)
	data[0] = id
	for range sockets {
		fd := s.socket(t, s.here)
		must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<28))
		must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: from}))
		for range each {
			if err := unix.Sendto(fd, data, 0, &unix.SockaddrInet4{Port: 9, Addr: to}); err != nil && !errors.Is(err, unix.ENOBUFS) {
				t.Fatal(err)
			}
		}
	}
}

// Beside a host with eight flows a host with one has a ninth by fq_codel, and a half by cake.
func TestCakeIsFairBetweenHosts(t *testing.T) {
	const many, one, each = 1, 2, 20
	for leaf, most := range map[Leaf]int{Cake: 2, FqCodel: 10} {
		t.Run(string(leaf), func(t *testing.T) {
			testutil.Need(t, string(leaf), probe.Qdisc(string(leaf)))
			s := newStage(t, "")
			run(t, "ip", "-n "+s.here.Name+" address add 10.9.0.7/24 dev eth0")
			run(t, "ip", "-n "+s.there.Name+" address add 10.9.0.3/24 dev eth0")
			run(t, "ip", "-n "+s.here.Name+" neighbour replace 10.9.0.3 lladdr 02:00:00:00:00:02 nud permanent dev eth0")
			have := s.apply(t, "  eth0: {rate: 5Mbit, classes: {best-effort: {queue: 5s, leaf: "+string(leaf)+"}}}\n")
			fd := s.listen(t)
			s.flows(t, many, [4]byte{10, 9, 0, 7}, [4]byte{10, 9, 0, 3}, 8, each)
			s.flows(t, one, [4]byte{10, 9, 0, 1}, [4]byte{10, 9, 0, 2}, 1, each)
			of, between, waiting := 0, 0, 0 // datagrams of one, those of many before its last, and since then
			for _, a := range s.received(t, fd, have) {
				switch {
				case a.dscp == one:
					of, between, waiting = of+1, between+waiting, 0
				case of > 0:
					waiting++
				}
			}
			if of < each/2 || between > most*of || most > 2 && between < 4*of {
				t.Errorf("%d datagrams of one flow came among %d of eight others, want at most %d for each", of, between, most)
			}
		})
	}
}
