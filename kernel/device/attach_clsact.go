// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/tc"
)

// filter is a clsact filter with a program. Its name identifies it to every process:
//
//	weir/ORDER/NAME/LIFE[/made]
//
// LIFE is "pinned", or the id of the process that owns it; made means that Weir created clsact.
type filter struct {
	conn  *tc.Conn // in the device's namespace
	index int
	life  string
	made  bool
}

// Priorities of Weir's filters. Foreign filters are between the two ranges, since the kernel
// assigns priorities from 49152 down, and users from 1 up.
const (
	first = 1 + int(MaxOrder) // keys -MaxOrder-1 to -1 have priorities 1 to 1000; at egress order 999 has the first
	last  = 0xf000
)

func (a *Attachment) priority() uint16 {
	if key := a.key(); key < 0 {
		return uint16(first + key + 1)
	}
	return uint16(last + a.key())
}

func (a *Attachment) parent() tc.Handle {
	if a.Hook == Egress {
		return tc.ClsactEgress
	}
	return tc.ClsactIngress
}

func attachFilter(ns *netns.Namespace, dev string, a *Attachment, program *ebpf.Program) (f *filter, err error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if err := sweep(conn, index); err != nil {
		return nil, err
	}
	f = &filter{conn: conn, index: index, life: fmt.Sprint(os.Getpid())}
	if a.pinned {
		f.life = "pinned"
	}
	if err := f.hook(); err != nil {
		return nil, err
	}
	if err := f.place(a); err != nil {
		return nil, errors.Join(err, f.unhook())
	}
	if err := f.put(a, program); err != nil {
		return nil, errors.Join(err, f.unhook())
	}
	return f, nil
}

// hook creates clsact if it is missing.
func (f *filter) hook() error {
	t, err := snapshot(f.conn, f.index)
	if err != nil {
		return err
	}
	if len(t.Hook) == 0 {
		f.made = true
		return f.conn.Put(tc.QdiscMessage, tc.Create|tc.Only, f.index, tc.Raw{Kind: "clsact", Parent: tc.Clsact, Handle: tc.MakeHandle(0xffff, 0)})
	}
	if t.Hook[0].Kind != "clsact" {
		return fault.New(fault.Usage, "replace it with clsact, which has the same function", "the device has a qdisc %s at its hook", t.Hook[0].Kind)
	}
	for _, x := range t.Hook[1:] {
		if _, of, ok := readFilter(x); ok && of.made {
			f.made = true
		}
	}
	return nil
}

// place checks whether existing filters leave a free position for the order.
func (f *filter) place(a *Attachment) error {
	all, err := f.conn.Dump(tc.FilterMessage, f.index, a.parent())
	if err != nil {
		return err
	}
	for _, x := range all {
		own, _, ok := readFilter(x)
		at, want := x.Priority(), a.priority()
		switch {
		case ok && at == want && (own.Name != a.Name || !own.pinned || !a.pinned):
			return taken(a, own)
		case ok:
		case a.key() < 0 && at <= want || a.key() >= 0 && at >= want:
			return fault.New(fault.Testbed, "give it another priority (tc filter), or use Linux 6.6",
				"a foreign filter has priority %d, and the order needs %d", at, want)
		}
	}
	return nil
}

// put creates the filter, or replaces its program.
func (f *filter) put(a *Attachment, program *ebpf.Program) error {
	name := fmt.Sprintf("weir/%d/%s/%s", a.Order, a.Name, f.life)
	if f.made {
		name += "/made"
	}
	return f.conn.Put(tc.FilterMessage, tc.Create, f.index, tc.NewBPF(a.parent(), a.priority(), name, program.FD()))
}

func readFilter(x tc.Raw) (*Attachment, *filter, bool) {
	bpf := x.BPF()
	parts := strings.Split(bpf.Name, "/")
	if x.Kind != "bpf" || len(parts) < 4 || parts[0] != "weir" {
		return nil, nil, false
	}
	a := &Attachment{Name: parts[2], Hook: Ingress, Mechanism: Clsact, Program: ebpf.ProgramID(bpf.ID), pinned: parts[3] == "pinned"}
	if x.Parent == tc.ClsactEgress {
		a.Hook = Egress
	}
	if _, err := fmt.Sscan(parts[1], &a.Order); err != nil {
		return nil, nil, false
	}
	return a, &filter{life: parts[3], made: len(parts) > 4}, true
}

func ownFilters(ns *netns.Namespace, dev string) (list []*Attachment, err error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	t, err := snapshot(conn, index)
	if err != nil {
		return nil, err
	}
	for _, x := range t.Hook {
		if a, f, ok := readFilter(x); ok {
			if f.conn, err = tc.Open(ns); err != nil {
				return nil, err
			}
			f.index, a.filter = index, f
			list = append(list, a)
		}
	}
	return list, nil
}

func (f *filter) detach(a *Attachment) error {
	defer f.conn.Close()
	raw := tc.Raw{Kind: "bpf", Parent: a.parent(), Info: tc.NewBPF(0, a.priority(), "", 0).Info}
	if err := f.conn.Remove(tc.FilterMessage, f.index, raw); err != nil && !absent(err) {
		return err
	}
	return f.unhook()
}

// unhook removes clsact if Weir created it and it is empty.
func (f *filter) unhook() error {
	t, err := snapshot(f.conn, f.index)
	if err != nil || !f.made || len(t.Hook) != 1 {
		return err
	}
	if err := f.conn.Remove(tc.QdiscMessage, f.index, t.Hook[0]); err != nil && !absent(err) {
		return err
	}
	return nil
}

// absent reports whether the filter, its qdisc or the device is gone.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL)
}

// Sweep removes the unpinned filters of ended processes from a device.
func Sweep(ns *netns.Namespace, dev string) error {
	conn, index, err := open(ns, dev)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := sweep(conn, index); err != nil {
		return fmt.Errorf("sweep %s: %w", dev, err)
	}
	return nil
}

func sweep(conn *tc.Conn, index int) error {
	t, err := snapshot(conn, index)
	if err != nil {
		return err
	}
	var left *filter
	for _, x := range t.Hook {
		_, f, ok := readFilter(x)
		var pid int
		if !ok || f.life == "pinned" {
			continue
		}
		if _, err := fmt.Sscan(f.life, &pid); err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if err := conn.Remove(tc.FilterMessage, index, x); err != nil && !absent(err) {
			return err
		}
		left = f
	}
	if left == nil {
		return nil
	}
	left.conn, left.index = conn, index
	return left.unhook()
}
