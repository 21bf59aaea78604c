// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/kernel/rtnl"
)

// Types of lightweight tunnels (linux/lwtunnel.h).
const (
	encapSeg6  = 5
	encapBPF   = 6
	encapIOAM6 = 9
)

// IOAM6Tunnel probes routes that insert IOAM options.
func IOAM6Tunnel() error {
	return tunnel("IOAM encapsulation", encapIOAM6, "CONFIG_IPV6_IOAM6_LWTUNNEL (Linux 5.15)")
}

// Seg6Tunnel probes routes that insert segment routing headers.
func Seg6Tunnel() error { return tunnel("SRv6 encapsulation", encapSeg6, "CONFIG_IPV6_SEG6_LWTUNNEL") }

// BPFTunnel probes routes that run a BPF program.
func BPFTunnel() error { return tunnel("BPF encapsulation", encapBPF, "CONFIG_LWTUNNEL_BPF") }

// tunnel requests a route with an encapsulation but without its options. The kernel checks the type
// first: EOPNOTSUPP means that it is missing, any other answer that it exists.
func tunnel(name string, encap uint16, option string) error {
	return need{namespaceCapabilities, option}.explain(name, inNamespace(func(conn *rtnl.Conn) error {
		if err := conn.SetUp("lo"); err != nil {
			return err
		}
		request := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		message := nl.NewRtMsg()
		message.Family, message.Dst_len = unix.AF_INET6, 64
		request.AddData(message)
		destination := make([]byte, 16) // 2001:db8::
		copy(destination, []byte{0x20, 0x01, 0x0d, 0xb8})
		request.AddData(nl.NewRtAttr(unix.RTA_DST, destination))
		request.AddData(nl.NewRtAttr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, 1)))
		request.AddData(nl.NewRtAttr(unix.RTA_ENCAP_TYPE, binary.NativeEndian.AppendUint16(nil, encap)))
		request.AddData(nl.NewRtAttr(unix.RTA_ENCAP|unix.NLA_F_NESTED, nil))
		_, err := request.Execute(unix.NETLINK_ROUTE, 0) // opens its socket here, on the thread inside the namespace
		if errors.Is(err, unix.EOPNOTSUPP) || refused(err) {
			return fmt.Errorf("add route: %w", err)
		}
		return nil
	}))
}
