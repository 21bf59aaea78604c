// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/modules/offload/state"
)

// testFrames is the number of frames of a delivery test.
const testFrames = 4

// undelivered tests the delivery of redirected frames at the veth ports of a policy, and returns
// each failing port as a filter, so that its packets stay with the kernel, which delivers them.
func (p *hostPlane) undelivered(t *Treatment, s *state.State) (all []state.Filter, err error) {
	if t.filters() {
		return nil, nil // filters transmit as the kernel does
	}
	ports := map[int]state.Link{}
	for _, name := range slices.Concat(t.From, t.To) {
		if device := below(s, name); device.Kind == "veth" && device.Up && device.Lower {
			ports[device.Index] = device
		}
	}
	for _, index := range slices.Sorted(maps.Keys(ports)) {
		delivers, err := delivers(p.ns, ports[index])
		if err != nil {
			return nil, fmt.Errorf("offload: test delivery at %s: %w", ports[index].Name, err)
		}
		if !delivers {
			all = append(all, state.Filter{Name: "veth " + ports[index].Name + " without GRO or XDP at its peer (ethtool -K PEER gro on)",
				IPv4: true, IPv6: true, Link: index, Egress: true, Undelivered: true})
		}
	}
	return all, nil
}

// delivers redirects frames of a local experimental EtherType to a veth, and reports whether its
// counter of accepted frames (tx_queue_N_xdp_xmit) grows.
func delivers(ns *netns.Namespace, port state.Link) (bool, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "offload_test", Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(port.Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}})
	if err != nil {
		return false, err
	}
	defer func() { _ = program.Close() }()
	before, err := accepted(ns, port.Name)
	if err != nil {
		return false, err
	}
	frame := make([]byte, 64)
	copy(frame, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5})
	err = ns.Do(func() error {
		_, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: testFrames, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES})
		return err
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		return true, nil // Linux before 5.18 has no such test
	}
	if err != nil {
		return false, err
	}
	after, err := accepted(ns, port.Name)
	return after >= before+testFrames, err
}

// accepted returns the number of redirected frames that a veth has passed to its peer.
func accepted(ns *netns.Namespace, name string) (n uint64, err error) {
	stats, err := ethtool.Stats(ns, name)
	for key, value := range stats {
		if strings.HasPrefix(key, "tx_queue_") && strings.HasSuffix(key, "_xdp_xmit") {
			n += value
		}
	}
	return n, err
}

// withUndelivered replaces the undelivered ports of a state.
func withUndelivered(s *state.State, ports []state.Filter) {
	s.Filters = append(delivered(s.Filters), ports...)
}

// delivered returns the filters without undelivered ports.
func delivered(all []state.Filter) []state.Filter {
	return slices.DeleteFunc(slices.Clone(all), func(f state.Filter) bool { return f.Undelivered })
}
