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
 * Another network namespace is shaped at the local ends of its veth pairs, where neither its root
 * nor its packets without a socket can bypass the shaper:
 *
 *   namespace: eth0 -> here, ingress of veth1 -> ifb, shaped -> bridge or router
 *   namespace: eth0 <- here, egress of veth1, shaped         <- bridge or router
 *
 * All ends charge the scope's shaper, so one rate covers several pairs. An end stays shaped while
 * it has our program and its peer is in any other namespace, since the namespace's root can move
 * the peer.
 */

// endAt returns the shaper of one local end, which charges the namespace's shaper.
func (l Shaper) endAt(d rtnl.Device) Shaper {
	here := direction.Ingress
	if l.Direction == direction.Ingress {
		here = direction.Egress
	}
	return Shaper{Device: d.Name, Index: d.Index, Direction: here, Parent: l.Key(), From: l.Namespace}
}

// namespaceEnds returns the shapers of the local ends of all namespaces. It rejects an end that has
// a limit of its own or belongs to two scopes, since a packet waits only once.
func (h Host) namespaceEnds(lines []Shaper) (all []Shaper, err error) {
	if !slices.ContainsFunc(lines, func(l Shaper) bool { return l.Namespace != "" }) {
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
			have[recordKey(l.Index, l.Direction)] = true
		}
	}
	for _, l := range lines {
		own, err := l.ends(links, ends)
		if err != nil {
			return nil, err
		}
		for _, end := range own {
			name := recordKey(end.Index, end.Direction)
			if have[name] {
				return nil, fault.New(fault.Usage, "remove one of the two limits", "limit %s of the network namespace %s: its veth end %s already has another limit",
					l.Direction, l.Namespace, end.Device)
			}
			have[name] = true
			all = append(all, end)
		}
	}
	recorded, err := h.recordedEnds(lines, ends, have)
	return append(all, recorded...), err
}

// ends returns one shaper without a rate for each local end of a namespace.
func (l Shaper) ends(links *rtnl.Conn, ends []rtnl.End) (all []Shaper, err error) {
	if l.Namespace == "" {
		return nil, nil
	}
	ns, err := netns.OpenPath(l.Namespace)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNamespace) {
		return nil, nil // it does not exist yet
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

// Unled returns the paths of the network namespaces without a veth end on this host.
func (h Host) Unled(w Work) (paths []string) {
	ends, err := h.AtDevices(w)
	if err != nil {
		return nil // Ready and Apply return the same error
	}
	for _, l := range w.Shapers {
		led := slices.ContainsFunc(ends, func(e Shaper) bool { return e.From == l.Namespace })
		if l.Namespace != "" && !led && !slices.Contains(paths, l.Namespace) {
			paths = append(paths, l.Namespace)
		}
	}
	return paths
}

// recordedEnds returns the other recorded ends of the namespaces.
func (h Host) recordedEnds(lines []Shaper, ends []rtnl.End, have map[string]bool) (all []Shaper, err error) {
	records, err := h.store().All()
	if err != nil {
		return nil, err
	}
	named := map[int]rtnl.Device{}
	for _, e := range ends {
		named[e.Index] = e.Device
	}
	for _, r := range records {
		d, there := named[r.Index]
		if r.From == "" || !there || have[recordKey(r.Index, r.Direction)] || !r.Taken.Here() {
			continue
		}
		// A later device with the same index has no program of ours.
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
