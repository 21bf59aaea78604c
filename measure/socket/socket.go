// SPDX-License-Identifier: Apache-2.0

// Package socket reads and sets the TCP options of a measured connection: TCP_INFO, BBR's state,
// the congestion control, TCP_NOTSENT_LOWAT and the UUID.
package socket

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/congestion"
	"weir/kernel/tcpinfo"
	"weir/measure/record"
)

// Socket is the socket of a TCP connection. It is safe for concurrent use, also after Close.
type Socket struct{ raw syscall.RawConn }

// Of returns the TCP socket below a connection (TLS and batches included).
func Of(conn net.Conn) (Socket, error) {
	for {
		if tcp, is := conn.(*net.TCPConn); is {
			raw, err := tcp.SyscallConn()
			return Socket{raw}, err
		}
		nested, is := conn.(interface{ NetConn() net.Conn })
		if !is {
			return Socket{}, fmt.Errorf("the connection %T has no TCP socket", conn)
		}
		conn = nested.NetConn()
	}
}

func (s Socket) control(do func(fd int) error) error {
	var failed error
	if err := s.raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// Info reads TCP_INFO.
func (s Socket) Info() (info tcpinfo.Info, err error) {
	err = s.control(func(fd int) (err error) {
		info, err = tcpinfo.Read(fd)
		return err
	})
	return info, err
}

// Read reads TCP_INFO and BBR's state for a message of a test that began at start.
func (s Socket) Read(start time.Time) (tcp *record.TCPInfo, bbr *record.BBRInfo, err error) {
	bbr = &record.BBRInfo{}
	err = s.control(func(fd int) error {
		info, err := tcpinfo.Read(fd)
		if err != nil {
			return err
		}
		elapsed := time.Since(start).Microseconds()
		tcp = convert(&info, elapsed)
		bbr.ElapsedTime = elapsed
		if state, err := unix.GetsockoptTCPCCBBRInfo(fd, unix.IPPROTO_TCP, unix.TCP_CC_INFO); err == nil && congestion.Of(fd) == "bbr" {
			bbr.BW = int64(uint64(state.Bw_hi)<<32 | uint64(state.Bw_lo))
			bbr.MinRTT, bbr.PacingGain, bbr.CwndGain = state.Min_rtt, state.Pacing_gain, state.Cwnd_gain
		}
		return nil
	})
	return tcp, bbr, err
}

// Counters count bytes through a socket since its start.
type Counters struct{ Written, Received int64 }

// CountersOf returns the counters of a reading: bytes written by the program, sent or not, and
// bytes received.
func CountersOf(i *record.TCPInfo) Counters {
	return Counters{i.BytesSent - i.BytesRetrans + int64(i.NotsentBytes), i.BytesReceived}
}

// Counters reads the counters; zero if the socket is closed.
func (s Socket) Counters() Counters {
	info, err := s.Info()
	if err != nil {
		return Counters{}
	}
	return CountersOf(convert(&info, 0))
}

// Unread returns the bytes that were received and not read yet; 0 if the socket is closed.
func (s Socket) Unread() (bytes int) {
	_ = s.control(func(fd int) (err error) {
		bytes, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	return bytes
}

// Congestion returns the name of the congestion control, "" if it cannot be read.
func (s Socket) Congestion() (name string) {
	_ = s.control(func(fd int) error { name = congestion.Of(fd); return nil })
	return name
}

// SetCongestion sets the congestion control.
func (s Socket) SetCongestion(name string) error {
	return s.control(func(fd int) error { return congestion.Set(fd, name) })
}

// SetNotsentLowat limits the unsent bytes in the socket above which it takes no more data.
func (s Socket) SetNotsentLowat(bytes int) error {
	return s.control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

// UUID returns the identifier of the connection, unique among all hosts and boots: host name, boot
// time in Unix seconds, and the socket's cookie as 16 hexadecimal digits (SO_COOKIE).
func (s Socket) UUID() (uuid string, err error) {
	prefix, err := prefix()
	if err != nil {
		return "", err
	}
	err = s.control(func(fd int) error {
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		uuid = fmt.Sprintf("%s_%016X", prefix, cookie)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read SO_COOKIE: %w", err)
	}
	return uuid, nil
}

// prefix reads host name and boot time once.
var prefix = sync.OnceValues(func() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read host name: %w", err)
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return "", fmt.Errorf("read boot time: %w", err)
	}
	boot, err := bootTime(string(text))
	if err != nil {
		return "", err
	}
	return plain(host) + "_" + strconv.FormatInt(boot, 10), nil
})

// bootTime returns the boot time in Unix seconds (btime of proc_stat(5)).
func bootTime(stat string) (int64, error) {
	for line := range strings.Lines(stat) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), "btime "); is {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/stat has no btime")
}

// plain replaces characters that the names of the archive do not allow.
func plain(host string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, host)
}
