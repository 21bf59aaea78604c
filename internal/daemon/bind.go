package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"

	"weir/internal/kernel/cgroup"
	"weir/internal/match"
	"weir/policy"
)

// binding is what a selector stands for on this host, now. It is comparable.
type binding struct {
	Kind   policy.Kind  `json:"kind,omitempty"` // cgroup, user, interface or prefix; "" while it is missing, and for a group
	Number uint64       `json:"number,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Missing says what is not there; the scope waits for it.
	Missing string `json:"missing,omitempty"`
}

// binder finds out what selectors stand for, with one look at the cgroups for all units.
type binder struct {
	root  string            // of the cgroups
	units map[string]string // unit to the path of its cgroup; nil before the look
}

// bind finds out what a selector stands for below the cgroup root.
func (b *binder) bind(s policy.Selector) (binding, error) {
	switch s.Kind {
	case policy.Host:
		return bindCgroup(b.root)
	case policy.Cgroup:
		return bindCgroup(filepath.Join(b.root, s.Text))
	case policy.Unit:
		return b.bindUnit(s.Text)
	case policy.User:
		return binding{Kind: policy.User, Number: uint64(s.User)}, nil
	case policy.Prefix:
		return binding{Kind: policy.Prefix, Prefix: match.OfPrefix(s.Prefix).Prefix}, nil
	case policy.Group:
		return binding{}, nil
	case policy.Interface:
		device, err := net.InterfaceByName(s.Text)
		if err != nil {
			return binding{Missing: "there is no interface " + s.Text}, nil
		}
		return binding{Kind: policy.Interface, Number: uint64(device.Index)}, nil
	}
	return binding{}, fmt.Errorf("bind scope: unknown selector %q", s.Kind)
}

func bindCgroup(path string) (binding, error) {
	id, err := cgroup.Cgroup{Path: path}.ID()
	if errors.Is(err, fs.ErrNotExist) {
		return binding{Missing: "there is no cgroup " + path}, nil
	}
	if err != nil {
		return binding{}, err
	}
	return binding{Kind: policy.Cgroup, Number: id}, nil
}

// bindUnit looks for the unit's cgroup in the slices, where systemd puts it: any folder of that name, the first in order.
func (b *binder) bindUnit(unit string) (binding, error) {
	if b.units == nil {
		b.units = map[string]string{}
		err := filepath.WalkDir(b.root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil // a cgroup that went away while it was looked at
				}
				return err
			}
			if _, twice := b.units[entry.Name()]; entry.IsDir() && !twice {
				b.units[entry.Name()] = path
			}
			return nil
		})
		if err != nil {
			return binding{}, fmt.Errorf("look for unit %s: %w", unit, err)
		}
	}
	path, runs := b.units[unit]
	if !runs {
		return binding{Missing: "unit " + unit + " has no cgroup: it does not run"}, nil
	}
	return bindCgroup(path)
}

// mechanism says by what the data plane holds a scope to its limits, and how it knows the traffic.
func (h held) mechanism() string {
	by := "the scopes below it"
	if key, bound := h.Bound.key(); bound {
		by = key.String()
	} else if h.Scope.Applies.Kind != policy.Group {
		return ""
	}
	switch {
	case h.Scope.Shadow:
		return "cgroup_skb, only counting; by " + by
	case h.Scope.Egress != nil:
		return "cgroup_skb, TCP paced by sock_ops; by " + by
	}
	return "cgroup_skb; by " + by
}

// key is what the data plane knows the traffic by; not there while it is missing, and for a group.
func (b binding) key() (key match.Key, bound bool) {
	return match.Key{Kind: match.Kind(b.Kind), Number: b.Number, Prefix: b.Prefix}, b.Kind != ""
}

// assignments collects what scopes stand for, as the data plane takes it.
type assignments struct{ match.Assignments }

// add notes what a scope stands for; one that waits stands for nothing.
func (a *assignments) add(h held) {
	if key, bound := h.Bound.key(); bound {
		if a.Assignments == nil {
			a.Assignments = match.Assignments{}
		}
		a.Assignments[key] = h.Index
	}
}
