// SPDX-License-Identifier: Apache-2.0

package links

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/kernel/packetsock"
)

// socketBuffer is the socket buffer in bytes of kernel memory.
const socketBuffer = 64 << 20

// tap captures packets behind the queues of a device, in order.
type tap struct {
	fd   int
	test uint64
	seen []left // by stream
	from int64  // the window, in nanoseconds since 1970
	to   int64
}

// left holds the captured packets of a stream.
type left struct {
	packets   uint32
	inWindow  uint32
	reordered uint32        // had a lower number than one before
	strange   uint32        // had another DSCP than it was sent with
	most      time.Duration // that one took from the sender to the wire
	highest   int64         // number; -1 before the first
}

// openTap opens it in the calling thread's network namespace.
func openTap(index int, test uint64, streams int) (*tap, error) {
	fd, err := packetsock.Open(nil, unix.SOCK_DGRAM)
	if err != nil {
		return nil, programNeeds.Fault("open packet socket", err)
	}
	t := &tap{fd: fd, test: test, seen: make([]left, streams)}
	for i := range t.seen {
		t.seen[i].highest = -1
	}
	if err := t.listen(index); err != nil {
		_ = unix.Close(fd)
		return nil, programNeeds.Fault("tap the link", err)
	}
	return t, nil
}

func (t *tap) listen(index int) error {
	source := binary.BigEndian.Uint32(testSource[:])
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: source, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 22, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: testPort, SkipTrue: 1},
		bpf.RetConstant{Val: sinceBody}, bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return errors.Join(
		unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(t.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}),
		unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: packetsock.Network(unix.ETH_P_ALL), Ifindex: index}))
}

// run captures until stop returns true and no packet has followed.
func (t *tap) run(streams []stream, stop func() bool) error {
	packet, control := make([]byte, 2048), make([]byte, 128)
	for {
		n, c, _, from, err := unix.Recvmsg(t.fd, packet, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			if stop() {
				return nil
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("tap the link: %w", err)
		}
		if link, is := from.(*unix.SockaddrLinklayer); is && link.Pkttype == unix.PACKET_OUTGOING && n >= sinceBody {
			t.look(packet[:n], stamped(control[:c]), streams)
		}
	}
}

// look counts one packet.
func (t *tap) look(packet []byte, at int64, streams []stream) {
	m := readMark(packet)
	if m.test != t.test || int(m.stream) >= len(t.seen) {
		return
	}
	l := &t.seen[m.stream]
	l.packets++
	if at >= t.from && at < t.to {
		l.inWindow++
	}
	if int64(m.number) < l.highest {
		l.reordered++
	}
	l.highest = max(l.highest, int64(m.number))
	if packet[1]>>2 != streams[m.stream].dscp {
		l.strange++
	}
	l.most = max(l.most, time.Duration(at-m.sent))
}

// stamped is the kernel's time of a packet, or now.
func stamped(control []byte) int64 {
	all, err := unix.ParseSocketControlMessage(control)
	for _, one := range all {
		if err == nil && one.Header.Level == unix.SOL_SOCKET && one.Header.Type == unix.SCM_TIMESTAMPNS && len(one.Data) >= 16 {
			return int64(binary.NativeEndian.Uint64(one.Data))*1e9 + int64(binary.NativeEndian.Uint64(one.Data[8:]))
		}
	}
	return time.Now().UnixNano()
}

// missed returns the number of packets dropped at the tap.
func (t *tap) missed() (uint32, error) {
	statistics, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("read the drops of the tap: %w", err)
	}
	return statistics.Drops, nil
}
