// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/dscp"
	"weir/kernel/bpferr"
)

// Types of ICMP messages (RFC 792, RFC 4443).
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// passing are ICMP errors about the peer (icmp_err_convert and icmpv6_err_convert in the kernel),
// and failures of the host to reach it.
var passing = []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.EHOSTDOWN, unix.ENETUNREACH, unix.ENONET, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EMSGSIZE, unix.EPROTO,
	unix.EACCES, unix.ENOBUFS}

// echoes sends echo requests to one peer and reports the replies until it is closed.
type echoes struct {
	conn    *net.IPConn
	ipv6    bool
	id      uint16
	replies chan<- reply
	done    chan struct{}
}

// reply is an echo reply.
type reply struct {
	from *echoes
	seq  uint16
	at   time.Time
}

// mayMeasure reports a missing right to send echo requests.
func mayMeasure() error {
	conn, err := net.ListenIP("ip4:icmp", nil)
	if err != nil {
		return bpferr.Needs{Capabilities: "CAP_NET_RAW"}.Fault("measure round trips, which needs CAP_NET_RAW", err)
	}
	_ = conn.Close()
	return nil
}

func openEchoes(peer netip.Addr, d dscp.DSCP, id uint16, replies chan<- reply) (*echoes, error) {
	e := &echoes{ipv6: peer.Is6(), id: id, replies: replies, done: make(chan struct{})}
	network := "ip4:icmp"
	if e.ipv6 {
		network = "ip6:ipv6-icmp"
	}
	conn, err := net.DialIP(network, nil, &net.IPAddr{IP: peer.AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("measure round trips to %s: %w", peer, err)
	}
	e.conn = conn
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { mark(int(fd), e.ipv6, d) })
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("measure round trips to %s: %w", peer, err)
	}
	go e.read()
	return e, nil
}

// mark gives the requests the class of the command. A failure only changes their class.
func mark(fd int, ipv6 bool, d dscp.DSCP) {
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if ipv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	_ = syscall.SetsockoptInt(fd, level, option, int(d)<<2)
}

// send sends a request.
func (e *echoes) send(seq uint16) error {
	m := make([]byte, 16)
	m[0] = echoRequest4
	if e.ipv6 {
		m[0] = echoRequest6 // the kernel writes its checksum
	}
	binary.BigEndian.PutUint16(m[4:], e.id)
	binary.BigEndian.PutUint16(m[6:], seq)
	if !e.ipv6 {
		binary.BigEndian.PutUint16(m[2:], checksum(m))
	}
	_, err := e.conn.Write(m)
	return err
}

// checksum is the Internet checksum (RFC 1071) of an even number of octets.
func checksum(m []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum)
}

func (e *echoes) read() {
	defer close(e.done)
	m := make([]byte, 1500)
	for {
		n, _, err := e.conn.ReadFromIP(m)
		at := time.Now()
		if err != nil {
			if closed(err) {
				return
			}
			continue
		}
		if seq, ok := e.parse(m[:n]); ok {
			select {
			case e.replies <- reply{e, seq, at}:
			default: // the loop is late; the reply counts as lost
			}
		}
	}
}

// closed reports whether an error of a read is its end.
func closed(err error) bool {
	return !slices.ContainsFunc(passing, func(one error) bool { return errors.Is(err, one) })
}

// parse returns the sequence number of a reply to us.
func (e *echoes) parse(m []byte) (uint16, bool) {
	kind := byte(echoReply6)
	if !e.ipv6 {
		kind = echoReply4
	}
	if len(m) < 8 || m[0] != kind || binary.BigEndian.Uint16(m[4:]) != e.id {
		return 0, false
	}
	return binary.BigEndian.Uint16(m[6:]), true
}

func (e *echoes) close() {
	_ = e.conn.Close()
	<-e.done
}
