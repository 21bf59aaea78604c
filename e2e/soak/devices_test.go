// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/kernel/device"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
)

// devices is the state of a namespace's devices, as text.
type devices struct {
	// exact is all of it: every device with its XDP program, the programs at its hooks by their
	// ids, and its tree with all options.
	exact string
	// made is the reproducible part: the programs' names and the tree's kinds and handles.
	made string
}

// look reads the devices of the host.
func (p *place) look(t *testing.T) (d devices) {
	t.Helper()
	var exact, made strings.Builder
	if err := p.here.Do(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		all, err := conn.Devices()
		if err != nil {
			return err
		}
		for _, dev := range all {
			index, err := net.InterfaceByName(dev.Name)
			if err != nil {
				return err
			}
			tree, err := device.Snapshot(nil, dev.Name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&exact, "%s: XDP %d, %+v", dev.Name, dev.XDP, tree)
			fmt.Fprintf(&made, "%s: XDP %s, %s", dev.Name, programName(t, ebpf.ProgramID(dev.XDP)), kinds(tree))
			for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				found, err := link.QueryPrograms(link.QueryOptions{Target: index.Index, Attach: hook})
				if err != nil {
					return err
				}
				for _, program := range found.Programs {
					fmt.Fprintf(&exact, ", %s %d", hook, program.ID)
					fmt.Fprintf(&made, ", %s %s", hook, programName(t, program.ID))
				}
			}
			exact.WriteString("\n")
			made.WriteString("\n")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return devices{exact.String(), made.String()}
}

func programName(t *testing.T, id ebpf.ProgramID) string {
	t.Helper()
	if id == 0 {
		return "none"
	}
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "gone" // between two readings
	}
	defer func() { _ = program.Close() }()
	info, err := program.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Name
}

// kinds formats a tree without options, and without handles that the kernel chooses.
func kinds(tree device.Tree) string {
	var text strings.Builder
	for _, part := range []struct {
		what string
		raw  []tc.Raw
	}{{"qdiscs", tree.Qdiscs}, {"classes", tree.Classes}, {"filters", tree.Filters}, {"hook", tree.Hook}} {
		fmt.Fprintf(&text, " %s", part.what)
		for _, r := range part.raw {
			fmt.Fprintf(&text, " %s %x<%x", r.Kind, r.Handle, r.Parent)
		}
	}
	return text.String()
}
