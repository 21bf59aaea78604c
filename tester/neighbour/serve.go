// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// requests is a filter for ARP and neighbour solicitations, so that other traffic causes no wakeup.
func requests() *unix.SockFprog {
	const load2, load1, equal, give = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, unix.BPF_LD | unix.BPF_B | unix.BPF_ABS,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load2, K: 12},
		{Code: equal, K: typeARP, Jt: 5},
		{Code: equal, K: typeIP6, Jf: 5},
		{Code: load1, K: ethernetSize + 6},
		{Code: equal, K: protocolICMP6, Jf: 3},
		{Code: load1, K: ethernetSize + ip6Size},
		{Code: equal, K: solicitation, Jf: 1},
		{Code: give, K: 2048},
		{Code: give, K: 0},
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
}

// serve answers until Close.
func (r *Responder) serve() {
	defer close(r.done)
	frame, control := make([]byte, 2048), make([]byte, 256)
	allowed := bucket{left: Burst, at: time.Now()}
	waits := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(waits, -1); err != nil && !errors.Is(err, unix.EINTR) {
			r.failed = fmt.Errorf("wait for neighbours: %w", err)
			return
		}
		if waits[1].Revents != 0 {
			return
		}
		n, controls, _, _, err := unix.Recvmsg(r.fd, frame, control, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN):
			continue
		case err != nil:
			r.failed = fmt.Errorf("receive from neighbours: %w", err)
			return
		}
		vlan := identifier(control[:controls])
		if answer, kind := r.set.Answer(frame[:n], vlan, r.own); kind != Nothing {
			r.send(tagged(answer, vlan), kind, allowed.take(time.Now()))
		}
	}
}

func (r *Responder) send(answer []byte, kind Kind, allowed bool) {
	var err error
	if allowed {
		_, err = unix.Write(r.fd, answer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !allowed:
		r.counts.Beyond++
	case err != nil:
		r.counts.Unsent++
	case kind == ARP:
		r.counts.ARP++
	default:
		r.counts.ND++
	}
}

// tagged inserts an 802.1Q tag; 0 inserts none.
func tagged(octets []byte, vlan uint16) []byte {
	if vlan == 0 {
		return octets
	}
	out := append(make([]byte, 0, len(octets)+4), octets[:12]...)
	out = binary.BigEndian.AppendUint16(append(out, 0x81, 0), vlan)
	return append(out, octets[12:]...)
}

// auxiliary is struct tpacket_auxdata (linux/if_packet.h).
type auxiliary struct {
	status, length, captured uint32
	mac, network, tci, tpid  uint16
}

// identifier returns the VLAN of a message's control data: the kernel has removed the tag from the
// frame.
func identifier(control []byte) uint16 {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < int(unsafe.Sizeof(auxiliary{})) {
			continue
		}
		if aux := (*auxiliary)(unsafe.Pointer(&m.Data[0])); aux.status&unix.TP_STATUS_VLAN_VALID != 0 {
			return aux.tci & 0xfff
		}
	}
	return 0
}
