// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// Redirection is a filter at a device's hook that sends packets by another device (tc's action
// mirred).
type Redirection struct {
	tc.Redirect
	Hook     Hook
	Kind     string // of the filter
	Priority uint16
	Hardware bool // the device does it, and the kernel sees no packet
}

// Redirections returns the redirecting filters of a device's clsact or ingress hook. It does not
// see redirects in shared blocks or by BPF programs.
func Redirections(ns *netns.Namespace, dev string) (all []Redirection, err error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	qdiscs, err := conn.Dump(tc.QdiscMessage, index, 0)
	if err != nil {
		return nil, fmt.Errorf("read qdiscs of %s: %w", dev, err)
	}
	for _, q := range qdiscs {
		if q.Parent != tc.Clsact {
			continue
		}
		hooks := []place{{Ingress, tc.ClsactIngress}, {Egress, tc.ClsactEgress}}
		if q.Kind == "ingress" {
			hooks = []place{{Ingress, q.Handle}}
		}
		for _, at := range hooks {
			if all, err = at.redirections(all, conn, index); err != nil {
				return nil, fmt.Errorf("read filters of %s at %s: %w", dev, at.hook, err)
			}
		}
	}
	return all, nil
}

// place is where filters are.
type place struct {
	hook   Hook
	parent tc.Handle
}

func (p place) redirections(all []Redirection, conn *tc.Conn, index int) ([]Redirection, error) {
	filters, err := conn.Dump(tc.FilterMessage, index, p.parent)
	for _, f := range filters {
		for _, to := range f.Redirects() {
			all = append(all, Redirection{to, p.hook, f.Kind, f.Priority(), f.InHardware()})
		}
	}
	return all, err
}
