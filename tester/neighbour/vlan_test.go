// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
)

// A request in the stream's VLAN is answered in it; the same request untagged or in another VLAN is
// not.
func TestRequestsAreAnsweredInTheirVLAN(t *testing.T) {
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	l, err := rtnl.Open(left)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := rtnl.Open(right)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := errors.Join(l.AddVeth("tg0", right, "far", 0), l.SetUp("tg0"), r.SetUp("far")); err != nil {
		t.Fatal(err)
	}
	stream := tester.Stream{Header: tester.Header{Source: four, VLAN: 7}}
	var s Set
	s.Add(stream, Source)
	responder, err := Open(left, "tg0", s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = responder.Close() }()
	device, err := r.Device("far")
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	if err := right.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}), Ifindex: device.Index}),
	); err != nil {
		t.Fatal(err)
	}
	request := arp(t, 1, four)
	for _, vlan := range []uint16{0, 8, 7} { // in order, so that the last request alone is answered
		if _, err := unix.Write(fd, tagged(request, vlan)); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, 5*time.Second, "an answer", func() bool { return responder.Counts() == Counts{ARP: 1} })
	frame, control := make([]byte, 2048), make([]byte, 256)
	testutil.Eventually(t, 5*time.Second, "the answer in its VLAN", func() bool {
		n, controls, _, _, err := unix.Recvmsg(fd, frame, control, unix.MSG_DONTWAIT)
		return err == nil && n >= 42 && bytes.Equal(frame[12:14], []byte{8, 6}) && identifier(control[:controls]) == 7
	})
	if err := responder.Close(); err != nil || responder.Counts() != (Counts{ARP: 1}) {
		t.Errorf("%+v, %v", responder.Counts(), err)
	}
}
