// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/fault"
	"weir/kernel/flower"
	"weir/kernel/netns"
	"weir/kernel/tc"
	"weir/modules/offload/pins"
)

// port is a device during the installation of rules.
type port struct {
	ns      *netns.Namespace
	folder  string
	index   int
	name    string
	filters []flower.Filter // present
	before  []uint32        // active chains of Weir
	base    uint32          // of the unused generation
}

// own reports whether a filter belongs to Weir.
func own(f flower.Filter) bool {
	if f.Kind != "flower" {
		return false
	}
	return f.Chain >= firstChain && f.Chain < firstChain+generations*generation || f.Chain == 0 && f.Handle&0xffff0000 == leadHandle
}

// asRule returns the identity of a filter.
func asRule(f flower.Filter) flower.Rule {
	return flower.Rule{Chain: f.Chain, Priority: f.Priority, Handle: f.Handle, Tagged: f.EtherType == 0x8100, IPv6: f.EtherType == 0x86dd}
}

// Foreign returns an error for a port with foreign filters at ingress, which offloaded packets
// would bypass.
func Foreign(ns *netns.Namespace, index int) error {
	name, filters, err := look(ns, index)
	if err != nil {
		return err
	}
	return foreign(name, filters)
}

func foreign(name string, filters []flower.Filter) error {
	for _, f := range filters {
		if !own(f) {
			return fault.New(fault.Usage, "remove the filter (tc filter show dev "+name+" ingress), or the link from the policy",
				"offload: offloaded packets would bypass a foreign tc filter at the ingress of %s (%s, chain %d, priority %d)", name, f.Kind, f.Chain, f.Priority)
		}
	}
	return nil
}

// look reads the filters at the ingress of a device.
func look(ns *netns.Namespace, index int) (name string, filters []flower.Filter, err error) {
	if name, err = NameOf(ns, index); err != nil {
		return "", nil, err
	}
	hooked, err := hook(ns, name)
	if err != nil || !hooked {
		return name, nil, err
	}
	conn, err := flower.Open(ns, index, 0)
	if err != nil {
		return name, nil, err
	}
	defer conn.Close()
	filters, err = conn.Filters()
	return name, filters, err
}

// hook reports whether a device has a hook for ingress filters.
func hook(ns *netns.Namespace, name string) (bool, error) {
	control, err := tc.Open(ns)
	if err != nil {
		return false, err
	}
	defer control.Close()
	qdiscs, err := control.List(name)
	return slices.ContainsFunc(qdiscs, func(q tc.Qdisc) bool { return q.Kind == "clsact" || q.Kind == "ingress" }), err
}

// take prepares a port: records it, creates the hook, and removes incomplete rules of a crash.
func take(ns *netns.Namespace, folder string, index int) (*port, error) {
	p := &port{ns: ns, folder: folder, index: index}
	var err error
	if p.name, p.filters, err = look(ns, index); err != nil {
		return nil, err
	}
	if err := foreign(p.name, p.filters); err != nil {
		return nil, err
	}
	hooked, err := hook(ns, p.name)
	if err != nil {
		return nil, err
	}
	marks := []string{portPin}
	if !hooked {
		marks = append(marks, hookPin)
	}
	for _, m := range marks {
		if err := os.Mkdir(filepath.Join(folder, m+strconv.Itoa(index)), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("pin the fast path: %w", err)
		}
	}
	if !hooked {
		control, err := tc.Open(ns)
		if err != nil {
			return nil, err
		}
		defer control.Close()
		if err := control.AddClsact(p.name); err != nil {
			return nil, err
		}
	}
	return p, p.choose()
}

// choose selects the unreachable generation, and empties it.
func (p *port) choose() error {
	led := map[uint32]bool{}
	for _, f := range p.filters {
		if f.Chain == 0 {
			led[(f.Goto-firstChain)/generation] = true
		}
	}
	var stale []uint32
	free := uint32(0)
	if led[0] {
		free = 1
	}
	p.base = firstChain + free*generation
	for _, f := range p.filters {
		switch {
		case f.Chain == 0:
		case (f.Chain-firstChain)/generation == free:
			stale = append(stale, f.Chain)
		default:
			p.before = append(p.before, f.Chain)
		}
	}
	p.before = unique(p.before)
	return p.clear(unique(stale))
}

func unique(list []uint32) []uint32 {
	slices.Sort(list)
	return slices.Compact(list)
}

// clear empties chains in the given order.
func (p *port) clear(chains []uint32) error {
	conn, err := flower.Open(p.ns, p.index, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, c := range chains {
		if err := conn.Clear(c); err != nil {
			return err
		}
	}
	return conn.Flush()
}

// abandon removes rules at ports to which nothing leads.
func abandon(ports []*port) (err error) {
	for _, p := range ports {
		now := *p
		var failed error
		if now.name, now.filters, failed = look(p.ns, p.index); failed == nil {
			failed = now.choose()
		}
		if failed == nil && len(p.filters) == 0 {
			failed = release(p.ns, p.folder, p.index)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// release restores a port.
func release(ns *netns.Namespace, folder string, index int) error {
	number := strconv.Itoa(index)
	if name, err := NameOf(ns, index); err == nil {
		if err := strip(ns, index); err != nil {
			return fmt.Errorf("end the fast path at %s: %w", name, err)
		}
		if _, err := os.Stat(filepath.Join(folder, hookPin+number)); err == nil {
			if err := unhook(ns, name, index); err != nil {
				return fmt.Errorf("end the fast path at %s: %w", name, err)
			}
		}
	}
	return pins.Remove(folder, hookPin+number, portPin+number)
}

// strip removes all rules of Weir, leads first.
func strip(ns *netns.Namespace, index int) error {
	_, filters, err := look(ns, index)
	if err != nil {
		return err
	}
	conn, err := flower.Open(ns, index, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	var chains []uint32
	for _, f := range filters {
		switch {
		case !own(f):
		case f.Chain == 0:
			if err := conn.Remove(asRule(f)); err != nil {
				return err
			}
		default:
			chains = append(chains, f.Chain)
		}
	}
	for _, c := range unique(chains) {
		if err := conn.Clear(c); err != nil {
			return err
		}
	}
	return conn.Flush()
}

// unhook removes the hook that Weir has made, unless others use it by now.
func unhook(ns *netns.Namespace, name string, index int) error {
	hooked, err := hook(ns, name)
	if err != nil || !hooked {
		return err
	}
	control, err := tc.Open(ns)
	if err != nil {
		return err
	}
	defer control.Close()
	for _, side := range []tc.Handle{tc.ClsactIngress, tc.ClsactEgress} {
		left, err := control.Dump(tc.FilterMessage, index, side)
		if err != nil || len(left) > 0 {
			return err
		}
	}
	return control.Delete(name, tc.Place{Parent: tc.Clsact})
}

// removeAll releases all ports except those to keep, and all other objects.
func removeAll(ns *netns.Namespace, folder string, keep map[string]bool) error {
	names, err := pins.List(folder, portPin, rulesPin)
	if err != nil {
		return fmt.Errorf("end the fast path: %w", err)
	}
	for _, n := range names {
		if keep[n] {
			continue
		}
		if number, is := strings.CutPrefix(n, portPin); is {
			index, err := strconv.Atoi(number)
			if err != nil {
				return fmt.Errorf("end the fast path: %s is no port", n)
			}
			if err := release(ns, folder, index); err != nil {
				return err
			}
		} else if err := pins.Remove(folder, n); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes all rules: the stack gets all packets, and the ports are as before. released
// reports whether there was anything.
func Remove(ns *netns.Namespace, folder string) (released bool, err error) {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	unlock, err := pins.Lock(folder)
	if err != nil {
		return false, err
	}
	defer unlock()
	names, err := pins.List(folder, portPin, rulesPin)
	if err != nil {
		return false, err
	}
	if err := removeAll(ns, folder, nil); err != nil {
		return true, err
	}
	return len(names) > 0, pins.End(folder)
}
