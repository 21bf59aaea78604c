// SPDX-License-Identifier: Apache-2.0

// Package tcpinfo reads the state of a TCP connection from the kernel (TCP_INFO, linux/tcp.h).
//
// The structure grows with the kernel. Fields missing in an older kernel are zero; [Info.Has]
// distinguishes them from a measured zero.
package tcpinfo

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// States of congestion control (tcpi_ca_state, enum tcp_ca_state in linux/tcp.h).
const (
	Open     = 0
	Disorder = 1 // duplicate ACKs or SACKs, no loss detected yet
	CWR      = 2 // window reduced for ECN or a local queue
	Recovery = 3 // fast recovery
	Loss     = 4 // after a retransmission timeout
)

// Size is the number of known bytes of the structure. A shorter answer leaves the rest zero.
const Size = int(unsafe.Sizeof(unix.TCPInfo{}))

// minimum reaches up to tcpi_total_retrans, which every supported kernel has.
const minimum = int(unsafe.Offsetof(unix.TCPInfo{}.Total_retrans)) + 4

// Info is one reading. The zero value holds nothing.
type Info struct {
	unix.TCPInfo
	// WScale holds the window scales, AppLimited tcpi_delivery_rate_app_limited and
	// tcpi_fastopen_client_fail: bit fields of linux/tcp.h, as bytes of the structure.
	WScale, AppLimited uint8
	length             int // bytes filled by the kernel
}

// Field is a field that not every kernel has.
type Field int

// Fields that Weir uses, with their first kernel version.
const (
	DataSegmentsIn = Field(unsafe.Offsetof(unix.TCPInfo{}.Data_segs_in)) + 4         // 4.6
	DeliveredCE    = Field(unsafe.Offsetof(unix.TCPInfo{}.Delivered_ce)) + 4         // 4.18
	BytesRetrans   = Field(unsafe.Offsetof(unix.TCPInfo{}.Bytes_retrans)) + 8        // 4.19
	RTORecoveries  = Field(unsafe.Offsetof(unix.TCPInfo{}.Total_rto_recoveries)) + 2 // 6.7
)

// Has reports whether the kernel filled the field.
func (i *Info) Has(f Field) bool { return i.length >= int(f) }

// Parse reads the structure in the machine's byte order. Bytes beyond Size are ignored.
func Parse(b []byte) (Info, error) {
	var info Info
	if len(b) < minimum {
		return info, fmt.Errorf("TCP_INFO has %d octets, at least %d are needed", len(b), minimum)
	}
	info.WScale, info.AppLimited = b[6], b[7] // padding of unix.TCPInfo
	info.length = copy(unsafe.Slice((*byte)(unsafe.Pointer(&info.TCPInfo)), Size), b)
	return info, nil
}

// Read reads the state of the TCP socket fd.
func Read(fd int) (Info, error) {
	var buffer [512]byte
	length := uint32(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&buffer)), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return Info{}, fmt.Errorf("read TCP_INFO: %w", errno)
	}
	return Parse(buffer[:length])
}

// SRTT returns the smoothed round-trip time (RFC 6298).
func (i *Info) SRTT() time.Duration { return micro(i.Rtt) }

// RTTVar returns the mean deviation of the round-trip time (RFC 6298).
func (i *Info) RTTVar() time.Duration { return micro(i.Rttvar) }

// MinRTT returns the kernel's windowed minimum round-trip time; 0 if there is none.
func (i *Info) MinRTT() time.Duration {
	if i.Min_rtt == ^uint32(0) {
		return 0
	}
	return micro(i.Min_rtt)
}

// Busy returns the time in which the sender had unsent or unacknowledged data; 0 before Linux 4.10.
func (i *Info) Busy() time.Duration { return time.Duration(i.Busy_time) * time.Microsecond }

// WindowLimited returns the part of Busy in which the receiver's window or the send buffer, not
// congestion control, limited the sender.
func (i *Info) WindowLimited() time.Duration {
	return time.Duration(i.Rwnd_limited+i.Sndbuf_limited) * time.Microsecond
}

// Lossy reports that the sender is repairing loss: in fast recovery or after a timeout.
func (i *Info) Lossy() bool { return i.Ca_state == Recovery || i.Ca_state == Loss }

func micro(v uint32) time.Duration { return time.Duration(v) * time.Microsecond }
