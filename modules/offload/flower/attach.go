// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"time"

	"weir/kernel/flower"
	"weir/kernel/netns"
	"weir/kernel/tc"
	"weir/modules/offload/plan"
)

// Attach writes the rules of a plan at ports without rules. Nothing is pinned: the rules end with
// their devices.
func Attach(ns *netns.Namespace, p *plan.Planner, mode uint32, lease time.Duration) (in *Installed, err error) {
	in = &Installed{planner: p, entries: newEntries()}
	made := in
	defer func() {
		if err != nil {
			made.Close()
		}
	}()
	if mode&flower.SkipHardware != 0 {
		if in.guard, err = newGuard("", lease, p.Budgeted()); err != nil {
			return nil, err
		}
	}
	control, err := tc.Open(ns)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	ops := in.entries.changes(p, families)
	for _, at := range Ports(p) {
		one := &port{ns: ns, index: at, base: firstChain}
		if one.name, err = NameOf(ns, at); err != nil {
			return nil, err
		}
		if err := control.AddClsact(one.name); err != nil {
			return nil, err
		}
		t, err := in.write(ns, one, mode, ops)
		if err != nil {
			return nil, err
		}
		in.tables = append(in.tables, t)
		if err := t.lead(nil); err != nil {
			return nil, err
		}
	}
	in.entries.take(ops)
	return in, nil
}

// Forwarded returns the number of packets sent by the rules.
func (in *Installed) Forwarded() (packets uint64, err error) {
	for _, t := range in.tables {
		filters, err := t.conn.Filters()
		if err != nil {
			return 0, err
		}
		n, _ := (&Seen{Ports: []Port{{Filters: filters}}}).Forwarded()
		packets += n
	}
	return packets, nil
}
