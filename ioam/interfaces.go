// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"slices"
	"strings"

	"weir/internal/kernel/rtnl"
	"weir/internal/room"
)

// places are the interfaces that are there, and the names of those that are not.
func (p *hostPlane) places(d declared) (there []place, missing []string, err error) {
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return nil, nil, err
	}
	for _, i := range d.interfaces {
		at := slices.IndexFunc(devices, func(d rtnl.Device) bool { return d.Name == i.Name })
		if at < 0 {
			missing = append(missing, i.Name)
			continue
		}
		there = append(there, place{devices[at], i})
	}
	return there, missing, nil
}

// Foresee names the interfaces that are not there, and those that the section leaves out.
func (p *hostPlane) Foresee(want room.State) []string {
	d := declaredIn(want.Host)
	_, missing, err := p.places(d)
	if err != nil {
		return nil // Apply fails too
	}
	notes := waitedFor(missing)
	if open := p.unnamed(d); len(open) > 0 {
		notes = append(notes, "ioam: what comes in by interfaces that are not named is not looked at, so that anybody behind them can send packets with IOAM into the domain; name them, as "+
			open[0]+": {}, to have these dropped: "+strings.Join(open, ", "))
	}
	return notes
}

func waitedFor(missing []string) (notes []string) {
	for _, name := range missing {
		notes = append(notes, "ioam: there is no interface "+name+": it is waited for")
	}
	return notes
}

// unnamed are interfaces by which packets may come in that the section does not name.
func (p *hostPlane) unnamed(d declared) (names []string) {
	if len(d.interfaces) == 0 {
		return nil
	}
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return nil
	}
	defer conn.Close()
	devices, _ := conn.Devices()
	for _, device := range devices {
		named := slices.ContainsFunc(d.interfaces, func(i Interface) bool { return i.Name == device.Name })
		if device.Up && !named && device.Name != "lo" && device.Kind != "ifb" {
			names = append(names, device.Name)
		}
	}
	return names
}
