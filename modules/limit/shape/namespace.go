// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"io/fs"
	"slices"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

/*
 * Another network namespace is limited at the ends of its veth pairs that are here, whoever is root
 * there and whatever has no socket here:
 *
 *   namespace: eth0 -> here, ingress of veth1 -> ifb, delayed -> bridge or router
 *   namespace: eth0 <- here, egress of veth1, delayed         <- bridge or router
 *
 * Devices lead there to the scope's line, so that it has one rate over several pairs. One that has
 * led from the namespace does so as long as it carries our program and its other end is anywhere
 * but here: who is root there can move that to a namespace of his own.
 */

// endAt is what leads to a namespace's line at an end.
func (l Line) endAt(d rtnl.Device) Line {
	here := direction.Ingress
	if l.Direction == direction.Ingress {
		here = direction.Egress
	}
	return Line{Device: d.Name, Index: d.Index, Direction: here, Parent: l.Key(), From: l.Namespace}
}

// leading are the lines at the ends of all namespaces. An end that is limited by itself, or by two
// scopes, is refused: its packets wait once.
func (h Host) namespaceEnds(lines []Line) (all []Line, err error) {
	if !slices.ContainsFunc(lines, func(l Line) bool { return l.Namespace != "" }) {
		return nil, nil
	}
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	ends, err := links.Ends()
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, l := range lines {
		if l.Device != "" {
			have[recordName(l.Index, l.Direction)] = true
		}
	}
	for _, l := range lines {
		leads, err := l.ends(links, ends)
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
	still, err := h.recordedEnds(lines, ends, have)
	return append(all, still...), err
}

// leads are where a namespace's line is charged: one line without a rate for each end.
func (l Line) ends(links *rtnl.Conn, ends []rtnl.End) (all []Line, err error) {
	if l.Namespace == "" {
		return nil, nil
	}
	ns, err := netns.OpenPath(l.Namespace)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNamespace) {
		return nil, nil // it is yet to come
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	number, err := links.Number(ns)
	if err != nil || number < 0 {
		return nil, err
	}
	for _, e := range ends {
		if e.Other == number {
			all = append(all, l.endAt(e.Device))
		}
	}
	return all, nil
}

// Unled are the network namespaces, by their paths, of lines to which no device leads.
func (h Host) Unled(w Work) (paths []string) {
	ends, err := h.AtDevices(w)
	if err != nil {
		return nil // Ready and Apply fail too
	}
	for _, l := range w.Lines {
		led := slices.ContainsFunc(ends, func(e Line) bool { return e.From == l.Namespace })
		if l.Namespace != "" && !led && !slices.Contains(paths, l.Namespace) {
			paths = append(paths, l.Namespace)
		}
	}
	return paths
}

// recordedEnds are the other ends that have led from a namespace of the lines.
func (h Host) recordedEnds(lines []Line, ends []rtnl.End, have map[string]bool) (all []Line, err error) {
	records, err := h.records()
	if err != nil {
		return nil, err
	}
	named := map[int]rtnl.Device{}
	for _, e := range ends {
		named[e.Index] = e.Device
	}
	for _, r := range records {
		d, there := named[r.Index]
		if r.From == "" || !there || have[recordName(r.Index, r.Direction)] || !r.Taken.Here() {
			continue
		}
		// A device that has come since with the number of a former one carries nothing of ours.
		if ours, err := h.attached(place{d.Name, hookOf(r.Direction)}); err != nil || !ours {
			if err != nil {
				return nil, err
			}
			continue
		}
		for _, l := range lines {
			if lead := l.endAt(d); l.Namespace == r.From && lead.Direction == r.Direction {
				all = append(all, lead)
			}
		}
	}
	return all, nil
}
