// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	"weir/core/module"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
)

// lookedFor holds the interfaces of a section, and the other devices of its network namespace.
type lookedFor struct {
	there   []place
	missing []string // configured names without a device
	kernel  []string // interfaces where the kernel's own IOAM node is active
	open    []string // unlisted devices, which may receive packets
}

func (p *hostPlane) lookFor(d Config) (found lookedFor, err error) {
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return found, err
	}
	for _, i := range d.Interfaces {
		at := slices.IndexFunc(devices, func(d rtnl.Device) bool { return d.Name == i.Name })
		if at < 0 {
			found.missing = append(found.missing, i.Name)
			continue
		}
		found.there = append(found.there, place{devices[at], i})
		if on, err := sysctl.Get(p.ns, "net/ipv6/conf/"+i.Name+"/ioam6_enabled"); err == nil && on == "1" {
			found.kernel = append(found.kernel, i.Name)
		}
	}
	for _, device := range devices {
		named := slices.ContainsFunc(d.Interfaces, func(i Interface) bool { return i.Name == device.Name })
		if device.Up && !named && device.Name != "lo" && device.Kind != "ifb" {
			found.open = append(found.open, device.Name)
		}
	}
	return found, nil
}

// notes returns notes about the interfaces.
func (found lookedFor) notes() (notes []string) {
	for _, name := range found.missing {
		notes = append(notes, "ioam: there is no interface "+name+" yet: Weir waits for it")
	}
	for _, name := range found.kernel {
		notes = append(notes, "ioam: the kernel's own IOAM node is active on "+name+" too, so traces in its namespaces get two entries per hop; switch one off: sysctl -w net.ipv6.conf."+name+".ioam6_enabled=0")
	}
	if len(found.open) > 0 && len(found.there)+len(found.missing) > 0 {
		notes = append(notes, "ioam: packets from unlisted interfaces are not checked, so any sender behind them can inject IOAM into the domain; list them, as in "+
			found.open[0]+": {}, to have these dropped: "+strings.Join(found.open, ", "))
	}
	return notes
}

// PlanNotes names missing interfaces and those that the section omits.
func (p *hostPlane) PlanNotes(want module.State) []string {
	found, err := p.lookFor(ConfigOf(want.Host))
	if err != nil {
		return nil // Apply fails too
	}
	return found.notes()
}
