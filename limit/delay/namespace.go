// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"errors"
	"io/fs"
	"slices"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/kernel/netns"
	"weir/internal/kernel/rtnl"
)

/*
 * Another network namespace is limited at the ends of its veth pairs that are here, whoever is root
 * there and whatever has no socket here:
 *
 *   namespace: eth0 -> here, ingress of veth1 -> ifb, delayed -> bridge or router
 *   namespace: eth0 <- here, egress of veth1, delayed         <- bridge or router
 *
 * Devices lead there to the scope's line, so that it has one rate over several pairs. One that has
 * led from the namespace does so as long as its other end is anywhere but here: who is root there
 * can move it to a namespace of his own.
 */

// leads are where a namespace's line is charged: one line without a rate for each end.
func (l Line) leads() (all []Line, err error) {
	ns, err := netns.OpenPath(l.Namespace)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNamespace) {
		return nil, nil // it is yet to come
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	ends, err := links.Ends(ns)
	for _, d := range ends {
		all = append(all, l.leadAt(d))
	}
	return all, err
}

// leadAt is what leads to a namespace's line at an end.
func (l Line) leadAt(d rtnl.Device) Line {
	here := direction.Ingress
	if l.Direction == direction.Ingress {
		here = direction.Egress
	}
	return Line{Device: d.Name, Index: d.Index, Direction: here, Parent: l.Key(), From: l.Namespace}
}

// led are the ends that have led to a namespace's line, wherever their other ends are now.
func (h Host) led(l Line, outside []rtnl.Device) (all []Line, err error) {
	for _, d := range outside {
		lead := l.leadAt(d)
		r, err := h.find(d.Index, lead.Direction)
		if err != nil {
			return nil, err
		}
		if r != nil && r.From == l.Namespace && r.Taken.Here() {
			all = append(all, lead)
		}
	}
	return all, nil
}

// leading are the lines at the ends of all namespaces. An end that is limited by itself, or by two
// scopes, is refused: its packets wait once.
func (h Host) leading(lines []Line) (all []Line, err error) {
	have := map[string]bool{}
	for _, l := range lines {
		if l.Device != "" {
			have[recordName(l.Index, l.Direction)] = true
		}
	}
	for _, l := range lines {
		if l.Namespace == "" {
			continue
		}
		leads, err := l.leads()
		if err != nil {
			return nil, err
		}
		for _, end := range leads {
			name := recordName(end.Index, end.Direction)
			if have[name] {
				return nil, fault.New(fault.Usage, "limit the one or the other", "limit %s of the network namespace %s: %s, which leads there, is limited by another scope too",
					l.Direction, l.Namespace, end.Device)
			}
			have[name] = true
			all = append(all, end)
		}
	}
	return h.stillLeading(lines, have, all)
}

// stillLeading adds the ends that led from a namespace of the lines, and are no other's now.
func (h Host) stillLeading(lines []Line, have map[string]bool, all []Line) ([]Line, error) {
	if !slices.ContainsFunc(lines, func(l Line) bool { return l.Namespace != "" }) {
		return all, nil
	}
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	outside, err := links.Ends(nil)
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if l.Namespace == "" {
			continue
		}
		led, err := h.led(l, outside)
		if err != nil {
			return nil, err
		}
		for _, end := range led {
			if name := recordName(end.Index, end.Direction); !have[name] {
				have[name] = true
				all = append(all, end)
			}
		}
	}
	return all, nil
}
