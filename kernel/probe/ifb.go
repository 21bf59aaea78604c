// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"weir/kernel/device"
	"weir/kernel/packetsock"
	"weir/kernel/rtnl"
)

// IFB probes intermediate functional blocks with a redirected frame. Debian's 6.1 drops such
// frames, because bpf_redirect does not mark them as redirected.
func IFB() error {
	return need{append([]string{"CAP_NET_RAW"}, namespaceCapabilities...), "CONFIG_IFB, to which BPF programs can redirect (Debian's 6.12 has it, its 6.1 not)"}.
		explain("ifb", inNamespace(redirects))
}

func redirects(conn *rtnl.Conn) error {
	err := errors.Join(conn.AddIFB("i"), conn.AddVeth("a", nil, "b", 0), conn.SetUp("i"), conn.SetUp("a"), conn.SetUp("b"))
	if err != nil {
		return err
	}
	block, err := conn.Device("i")
	if err != nil {
		return err
	}
	program, err := assemble(ebpf.SchedCLS, asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(block.Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	})
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	at, err := device.Attach(nil, "a", device.Ingress, 0, "probe", program, device.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = at.Detach() }()
	if err := sendFrame(conn, "b"); err != nil {
		return err
	}
	for range 1000 { // a busy machine is slow
		switch t, err := conn.Traffic("i"); {
		case err != nil:
			return err
		case t.SentPackets > 0:
			return nil
		case t.ReceivedDropped > 0:
			return errors.New("it drops redirected packets")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("redirected packets do not arrive")
}

// sendFrame sends a frame with an experimental EtherType through a device.
func sendFrame(conn *rtnl.Conn, dev string) error {
	d, err := conn.Device(dev)
	if err != nil {
		return err
	}
	fd, err := packetsock.Open(nil, unix.SOCK_RAW)
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	frame := make([]byte, 60)
	for i := range 6 {
		frame[i] = 0xff
	}
	frame[12], frame[13] = 0x88, 0xb5
	if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: d.Index, Halen: 6}); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}
