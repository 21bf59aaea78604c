// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"errors"
	"io/fs"

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
 * Devices lead there to the scope's line, so that it has one rate over several pairs.
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
		here := direction.Ingress
		if l.Direction == direction.Ingress {
			here = direction.Egress
		}
		all = append(all, Line{Device: d.Name, Index: d.Index, Direction: here, Parent: l.Key()})
	}
	return all, err
}

// leading are the lines at the ends of all namespaces. An end that is limited by itself, or by two
// scopes, is refused: its packets wait once.
func leading(lines []Line) (all []Line, err error) {
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
	return all, nil
}
