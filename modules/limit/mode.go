// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/modules/limit/police"
)

// Kinds of selectors of scopes that are shaped at devices.
const kindInterface, kindNetns = "interface", "netns"

// checkModes reports scopes that cannot be shaped. It requires complete limits; see inherit.
func checkModes(d *policy.Draft, own []*Treatment) {
	for i, t := range own {
		s := &d.Scopes[i]
		for _, dir := range direction.Both {
			l := t.of(dir)
			if l == nil || l.Mode != police.ModeShape {
				continue
			}
			switch kind := s.Selector.Kind; {
			case selector.IsLoopback(s.Selector) || t.Loopback:
				d.Complain(s, dir.String(), "%s: packets over lo cannot be shaped: leave mode: shape or loopback out", dir)
			case dir == Ingress && kind != kindInterface && kind != kindNetns && kind != policy.Group:
				d.Complain(s, dir.String(), "%s: mode: shape requires a scope of an interface or a network namespace, or a group of them: received packets have no socket yet where they are shaped; leave it out, or limit an interface", dir)
			case kind == kindInterface && isBelow(d, i, kindInterface):
				d.Complain(s, "parent", "packets of %s and of an interface above it are charged at each device: leave the parent out, or use a group as the parent of both", s.Selector)
			case kind == kindNetns && !onlyGroupsAbove(d, i) || isBelow(d, i, kindNetns):
				d.Complain(s, "parent", "packets of a network namespace are shaped at its own devices, and those of %s elsewhere too: leave the parent out, or use a group as the parent of both", s.Selector)
			case l.Min > 0:
				d.Complain(s, dir.String(), "%s: mode: shape guarantees no minimum: write a weight, or leave mode: shape out", dir)
			}
		}
	}
}

// isBelow reports whether a scope has a scope of the given kind above it.
func isBelow(d *policy.Draft, i int, kind string) bool {
	for at := d.Scopes[i].Above; at >= 0; at = d.Scopes[at].Above {
		if d.Scopes[at].Selector.Kind == kind {
			return true
		}
	}
	return false
}

// onlyGroupsAbove reports whether all scopes above a scope are groups.
func onlyGroupsAbove(d *policy.Draft, i int) bool {
	for at := d.Scopes[i].Above; at >= 0; at = d.Scopes[at].Above {
		if d.Scopes[at].Selector.Kind != policy.Group {
			return false
		}
	}
	return true
}

// Renamed returns the current spelling of a former key or value; "" for none.
func (*rateKeys) Renamed(key, value string) string {
	switch {
	case key != "by" && key != "mode":
		return ""
	case value == "delay":
		return "mode: shape"
	case value == "refusal":
		return "mode: police"
	case key == "by":
		return "mode"
	}
	return ""
}
