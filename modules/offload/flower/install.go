// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/kernel/flower"
	"weir/kernel/netns"
	"weir/modules/offload/pins"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
)

// Names in the folder of pins.
const (
	rulesPin = "filters-" // an active set of rules
	portPin  = "ingress-" // a port that may have rules
	hookPin  = "clsact-"  // a port with a hook made by Weir
)

// Installed is a plan active at all ports. It is not safe for concurrent use.
type Installed struct {
	planner *plan.Planner
	tables  []*table
	entries *entries // active at every port
	guard   *guard   // nil in a NIC
	folder  string
}

// Ports returns the devices with rules.
func Ports(p *plan.Planner) (all []int) {
	for _, port := range p.Ports() {
		for _, in := range p.Inputs() {
			if in.Port == port {
				all = append(all, port)
				break
			}
		}
	}
	return all
}

// Install writes the rules of a plan with a mode of kernel/flower, and then redirects frames to
// them instead of the former ones. After an error the former rules stay active unless their
// replacement had begun; then the stack gets all packets.
func Install(ns *netns.Namespace, folder string, p *plan.Planner, mode uint32, lease time.Duration) (in *Installed, err error) {
	unlock, err := pins.Lock(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := rulesPin + strconv.FormatInt(time.Now().UnixNano(), 36)
	in = &Installed{planner: p, entries: newEntries(), folder: filepath.Join(folder, name)}
	made := in
	defer func() {
		if err != nil {
			made.Close()
			err = errors.Join(err, pins.Remove(folder, name))
		}
	}()
	if err := os.Mkdir(in.folder, 0o700); err != nil {
		return nil, fmt.Errorf("pin the fast path: %w", err)
	}
	if mode&flower.SkipHardware != 0 {
		if in.guard, err = newGuard(in.folder, lease, p.Budgeted()); err != nil {
			return nil, err
		}
	}
	if err := in.inherit(folder); err != nil {
		return nil, err
	}
	ops, keep := in.entries.changes(p, families), map[string]bool{name: true}
	var ports []*port
	for _, at := range Ports(p) {
		one, err := take(ns, folder, at)
		if err != nil {
			return nil, errors.Join(err, abandon(ports))
		}
		ports = append(ports, one)
		t, err := in.write(ns, one, mode, ops)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("offload at %s: %w", one.name, err), abandon(ports))
		}
		in.tables = append(in.tables, t)
		keep[portPin+strconv.Itoa(at)] = true
	}
	in.entries.take(ops)
	for i, t := range in.tables {
		if err := t.lead(ports[i].filters); err != nil {
			return nil, errors.Join(fmt.Errorf("offload at %s: %w", ports[i].name, err), removeAll(ns, folder, nil))
		}
	}
	for _, one := range ports {
		if err := one.clear(one.before); err != nil {
			return nil, err
		}
	}
	return in, removeAll(ns, folder, keep)
}

// inherit continues the samples of the former rules.
func (in *Installed) inherit(folder string) error {
	sets, err := pins.List(folder, rulesPin)
	if err != nil {
		return fmt.Errorf("take over samples: %w", err)
	}
	for _, name := range sets {
		if name == filepath.Base(in.folder) {
			continue
		}
		if err := in.Samples().InheritPinned(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// Samples returns the samples of packets seen by the rules; none without a budget, or in a NIC,
// which does not report other packets.
func (in *Installed) Samples() sample.Sampler { return in.guard.samples() }

// Samples opens the samples of the rules pinned in a folder; the zero value without rules.
func Samples(folder string) (sample.Sampler, error) {
	sets, err := pins.List(folder, rulesPin)
	if err != nil || len(sets) == 0 {
		return sample.Sampler{}, err
	}
	return sample.Pinned(filepath.Join(folder, sets[len(sets)-1]))
}

// write makes a port's table of a new generation.
func (in *Installed) write(ns *netns.Namespace, at *port, mode uint32, ops []change) (*table, error) {
	conn, err := flower.Open(ns, at.index, mode)
	if err != nil {
		return nil, err
	}
	t := newTable(in.planner, at.index, conn, at.base, in.guard.descriptor())
	if err := t.fill(ops); err != nil {
		conn.Close()
		return nil, rejected(at.name, mode, err)
	}
	return t, nil
}

// rejected adds advice to the rejection of a rule by the kernel.
func rejected(name string, mode uint32, err error) error {
	if mode&flower.SkipSoftware != 0 {
		return fault.Wrap(fmt.Errorf("the NIC rejects a rule, so no rule is active: %w", err), fault.Testbed,
			"offload fewer prefixes (table, except), or use backend: xdp; tc -s filter show dev "+name+" ingress shows the existing rules")
	}
	return fault.Wrap(err, fault.Testbed, "a kernel with cls_flower, act_pedit, act_csum, act_vlan, act_mirred, act_gact and act_bpf is needed; or use backend: xdp")
}

// Update writes the plan's current decisions below prefixes, and the current hops of changed
// decisions.
func (in *Installed) Update(prefixes []netip.Prefix, changed []plan.Decision) error {
	var ops []change
	if len(prefixes) > 0 {
		ops = in.entries.changes(in.planner, prefixes)
	}
	for _, t := range in.tables {
		for _, d := range changed {
			if err := t.change(d); err != nil {
				return err
			}
		}
		if err := t.become(ops); err != nil {
			return err
		}
	}
	in.entries.take(ops)
	return nil
}

// Renew extends the lease of the rules; 0 gives all packets to the stack. Rules in a NIC do not
// expire.
func (in *Installed) Renew(lease time.Duration) error {
	if in.guard != nil {
		return in.guard.renew(lease)
	}
	if lease > 0 {
		return nil
	}
	for _, t := range in.tables {
		if err := t.unlead(); err != nil {
			return err
		}
	}
	return nil
}

// InForce reports whether these rules are still active.
func (in *Installed) InForce() bool {
	_, err := os.Stat(in.folder)
	return err == nil
}

// Close releases the rules, which stay.
func (in *Installed) Close() {
	for _, t := range in.tables {
		t.conn.Close()
	}
	in.guard.close()
}
