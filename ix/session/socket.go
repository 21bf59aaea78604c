// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxPassword is the maximum length of a TCP MD5 key in bytes (RFC 2385).
const MaxPassword = unix.TCP_MD5SIG_MAXKEYLEN

// Sign sets the TCP MD5 key (RFC 2385) for a peer on a listening or not yet connected socket.
func Sign(raw syscall.RawConn, peer netip.Addr, password string) error {
	if len(password) > MaxPassword {
		return fmt.Errorf("a password of %d bytes exceeds %d", len(password), MaxPassword)
	}
	var sig unix.TCPMD5Sig
	if peer.Is4() {
		sig.Addr.Family = unix.AF_INET
		addr := peer.As4()
		copy(sig.Addr.Data[2:], addr[:]) // struct sockaddr_in: behind the port
	} else {
		sig.Addr.Family = unix.AF_INET6
		addr := peer.As16()
		copy(sig.Addr.Data[6:], addr[:]) // struct sockaddr_in6: behind port and flow information
	}
	sig.Keylen = uint16(copy(sig.Key[:], password))
	return control(raw, "set the TCP MD5 key", func(fd int) error {
		return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &sig)
	})
}

// Far sets the TTL of sent packets to 255 (RFC 5082), for sockets of IPv4 or IPv6.
func Far(raw syscall.RawConn, ipv6 bool) error {
	return control(raw, "set the TTL", func(fd int) error {
		if ipv6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 255)
	})
}

// Near drops received packets with a TTL below 255 (GTSM, RFC 5082): only neighbors on the link
// can send it.
func Near(raw syscall.RawConn, ipv6 bool) error {
	return control(raw, "set the minimum TTL", func(fd int) error {
		if ipv6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, 255)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255)
	})
}

// Raw returns the socket of a TCP connection or listener.
func Raw(of any) (syscall.RawConn, error) {
	c, is := of.(syscall.Conn)
	if !is {
		return nil, errors.New("no socket")
	}
	return c.SyscallConn()
}

// LowLatency sets the options of a BGP connection: no delay of small messages.
func LowLatency(conn net.Conn) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetNoDelay(true)
	}
}

func control(raw syscall.RawConn, what string, set func(fd int) error) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = set(int(fd)) }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", what, failed)
	}
	return nil
}
