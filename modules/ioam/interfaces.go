// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"slices"
	"strings"

	"weir/core/module"
	"weir/kernel/rtnl"
)

// lookedFor are the interfaces of a section, and the others of its network namespace.
type lookedFor struct {
	there   []place
	missing []string // named, and not there
	open    []string // by which packets may come in that the section leaves out
}

func (p *hostPlane) lookFor(d declared) (found lookedFor, err error) {
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return found, err
	}
	for _, i := range d.interfaces {
		at := slices.IndexFunc(devices, func(d rtnl.Device) bool { return d.Name == i.Name })
		if at < 0 {
			found.missing = append(found.missing, i.Name)
			continue
		}
		found.there = append(found.there, place{devices[at], i})
	}
	for _, device := range devices {
		named := slices.ContainsFunc(d.interfaces, func(i Interface) bool { return i.Name == device.Name })
		if device.Up && !named && device.Name != "lo" && device.Kind != "ifb" {
			found.open = append(found.open, device.Name)
		}
	}
	return found, nil
}

// notes returns notes about the interfaces.
func (found lookedFor) notes() (notes []string) {
	for _, name := range found.missing {
		notes = append(notes, "ioam: there is no interface "+name+": it is waited for")
	}
	if len(found.open) > 0 && len(found.there)+len(found.missing) > 0 {
		notes = append(notes, "ioam: packets from unlisted interfaces are not checked, so any sender behind them can inject IOAM into the domain; list them, as in "+
			found.open[0]+": {}, to have these dropped: "+strings.Join(found.open, ", "))
	}
	return notes
}

// PlanNotes names missing interfaces and those that the section omits.
func (p *hostPlane) PlanNotes(want module.State) []string {
	found, err := p.lookFor(declaredIn(want.Host))
	if err != nil {
		return nil // Apply fails too
	}
	return found.notes()
}
