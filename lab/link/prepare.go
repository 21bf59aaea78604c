// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/sysctl"
	"weir/kernel/sysfs"
	"weir/kernel/tc"
)

// hostQueue is the number of packets that may wait in a host for its own device.
const hostQueue = 1000

// HostOffloads are the offloads that a host's end of an emulated link must have:
//
//   - tx off: checksums are computed by the host. A carrier would pass half-computed ones on,
//     broken for good.
//   - tso, gso off: frames leave at most MTU-sized, so that a loss hits a frame and not a
//     super-packet of 64 KB.
//   - VLAN tags in the frame, not beside it, where XDP would not see them.
//   - gro on: the receiver takes frames in batches (NAPI), without which veth cannot push back.
func HostOffloads() map[string]bool {
	return map[string]bool{"tx": false, "tso": false, "gso": false, "gro": true,
		"tx-vlan-hw-insert": false, "tx-vlan-stag-hw-insert": false}
}

// Prepare makes a device fit to be a host's end of an emulated link: HostOffloads, a pfifo, and
// IPv6 addresses that work at once and without solicitations. The pfifo is for back pressure, not
// for queueing: veth stops a device that has a qdisc when its peer is full (Linux 6.16), and drops
// otherwise. The bottleneck's queue is the carrier's.
func Prepare(ns *netns.Namespace, dev string) error {
	if err := ethtool.SetFeatures(ns, dev, HostOffloads()); err != nil {
		return fmt.Errorf("prepare %s: %w", dev, err)
	}
	if err := addFifo(ns, dev); err != nil {
		return fmt.Errorf("prepare %s: %w", dev, err)
	}
	return setIPv6(ns, dev, map[string]string{"accept_dad": "0", "dad_transmits": "0", "router_solicitations": "0", "accept_ra": "0"})
}

// Thread has the frames of a prepared device processed by a kernel thread of its own (Linux 5.12).
// Otherwise the host's whole TCP work for a frame is done in the system call by which the emulator
// sends it, and the frames behind it wait. The device must be up: before, there is nothing that
// could have a thread.
func Thread(ns *netns.Namespace, dev string) error {
	err := sysfs.Set(ns, sysfs.Attribute{Device: dev, Name: "threaded", Value: "1"})
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return fmt.Errorf("prepare %s: %w", dev, err)
}

// PrepareCarrierEnd makes a device fit to be a cable's end in the carrier's namespace: frames pass
// it, the namespace's own stack neither sends nor takes any. Carriers call it.
func PrepareCarrierEnd(ns *netns.Namespace, dev string) error {
	if err := HandOver(ns, dev); err != nil {
		return err
	}
	if err := addFifo(ns, dev); err != nil {
		return fmt.Errorf("prepare %s: %w", dev, err)
	}
	return Silence(ns, dev)
}

// HandOver has a cable's end hand frames to the host's own thread.
//
// Its TSO decides how the host's end receives (veth_skb_is_eligible_for_gro). With it a frame goes
// up the host's stack within the system call by which the carrier sends it; without it by NAPI, in
// batches and in the host's own thread, so that the carrier only hands over. A batch that finds the
// peer's ring full waits from Linux 6.16 on; before, it would be lost, and TSO stays on.
func HandOver(ns *netns.Namespace, dev string) error {
	waits, err := probe.Since(6, 16)
	if err == nil && waits {
		err = ethtool.SetFeatures(ns, dev, map[string]bool{"tso": false})
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", dev, err)
	}
	return nil
}

// Silence keeps the namespace's own stack from sending through a device of a carrier: no IPv6, and
// so no solicitations and multicast reports. (Nobody gives these devices IPv4 addresses.)
func Silence(ns *netns.Namespace, dev string) error {
	return setIPv6(ns, dev, map[string]string{"disable_ipv6": "1"})
}

func addFifo(ns *netns.Namespace, dev string) error {
	conn, err := tc.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.AddPfifo(dev, tc.Place{}, hostQueue)
}

// setIPv6 sets per-device IPv6 settings; a kernel without IPv6 has none to set.
func setIPv6(ns *netns.Namespace, dev string, settings map[string]string) error {
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return nil
	}
	for key, value := range settings {
		// Slashes, since a device's name may hold dots.
		if err := sysctl.Set(ns, strings.Join([]string{"net/ipv6/conf", dev, key}, "/"), value); err != nil {
			return fmt.Errorf("prepare %s: %w", dev, err)
		}
	}
	return nil
}
